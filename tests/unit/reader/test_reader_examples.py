"""The examples in the reader's docstrings, and what they leave out: modes, workers and missing libraries."""

from __future__ import annotations

import doctest
import math
import sys
from pathlib import Path

import pytest
from generated_runs import float_tensors

import leadline
from leadline.errors import MissingExtraError, NotCapturedError, NotYetError, UnknownNameError
from leadline.reader import run as run_module
from leadline.reader import table_queries, tensor
from leadline.reader.run import Run
from leadline.testing.runs import Capture, Part, RunWriter

GRADIENT = "gradient/fc.weight"


def parts() -> list[Part]:
    """Steps 0 to 3 of training with a loss, gradients at every other one, a weight at step 2; eval steps 0 to 2."""
    written: list[Part] = [Capture(step, {"loss": {"value": 1 / (step + 1)}}) for step in range(4)]
    written += [Capture(step, {GRADIENT: {"abs_mean": 0.25 * step, "nonfinite_count": 0.0}}) for step in range(0, 4, 2)]
    written.append(float_tensors(2, {"fc.weight": [1.0, -2.0]}))
    written += [Capture(4 + step, {"loss": {"value": 9.0}}, mode="eval", mode_step=step) for step in range(3)]
    return written


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LEADLINE_ROOT", str(tmp_path))
    RunWriter(tmp_path / "example").write_all(parts()).end()
    return leadline.open_run()


@pytest.mark.parametrize("module", [run_module, tensor, table_queries])
def test_the_examples_in_the_docstrings_run(run: Run, module: object) -> None:
    tests = [test for test in doctest.DocTestFinder().find(module, extraglobs={"leadline": leadline}) if test.examples]
    assert tests
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0, test.name


def test_names_by_step_and_mode(run: Run) -> None:
    assert run.collections() == {"losses": ["loss"], "scalars": ["loss"], "gradients": [GRADIENT]}
    assert run.tensor_names(step=1) == ["loss"]
    assert run.tensor_names(step=2) == ["loss", GRADIENT, "fc.weight"]
    assert run.tensor_names(step=2, collection="gradients") == [GRADIENT]
    assert run.tensor_names(mode="eval") == ["loss"]
    assert run.tensor_names(step=3, mode="eval") == []


def test_the_statistics_of_a_step(run: Run, tmp_path: Path) -> None:
    gradient = run.tensor(GRADIENT)
    assert gradient.reduction_values(2) == {"abs_mean": 0.5, "nonfinite_count": 0.0}
    with pytest.raises(NotCapturedError, match=r"no statistic of .+ was captured at step 1; the nearest"):
        gradient.reduction_values(1)
    with pytest.raises(NotCapturedError):
        gradient.reduction_values(2, worker="rank1-2")
    growing = leadline.open_run(RunWriter(tmp_path / "growing").write_all(parts()).path).tensor(GRADIENT)
    with pytest.raises(NotYetError):
        growing.reduction_values(40)


def test_statistics_of_several_schedules_and_workers_are_one_table(tmp_path: Path) -> None:
    written = [
        Capture(step, {GRADIENT: values}, worker)
        for worker in ("rank0-1", "rank1-2")
        for step, values in enumerate([{"l2": 1.0, "min": -1.0}, {"l2": math.nan}, {"min": -3.0}])
    ]
    table = leadline.open_run(RunWriter(tmp_path / "two").write_all(written).end().path).tensor(GRADIENT).table()
    assert table.column_names == ["step", "mode", "worker", "time_ns", "l2", "min"]
    assert table["step"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert table["worker"].to_pylist() == ["rank0-1", "rank1-2"] * 3
    assert table["min"].to_pylist() == [-1.0, -1.0, None, None, -3.0, -3.0]
    l2 = table["l2"].to_pylist()
    assert l2[:2] == [1.0, 1.0]
    assert all(math.isnan(value) for value in l2[2:4])
    assert l2[4:] == [None, None]


def test_a_table_of_one_mode(run: Run) -> None:
    assert run.tensor("loss").table("eval")["step"].to_pylist() == [0, 1, 2]
    assert run.tensor("fc.weight").table().num_rows == 0, "only the raw tensor was stored"


def test_several_steps_in_one_wait(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "growing").write_all(parts()[:3])
    run = leadline.open_run(writer.path)
    run.wait_for_steps([], timeout=0.0)
    with pytest.raises(NotYetError, match="step 7"):
        run.wait_for_steps([0, 7, 1], timeout=0.0)
    writer.end()
    run.wait_for_steps([1, 2, 0], timeout=0.0)
    with pytest.raises(NotCapturedError, match="ended before step 7"):
        run.wait_for_steps([0, 7], timeout=5.0)


def test_the_html_of_a_run_has_its_outcome(run: Run) -> None:
    html = run._repr_html_()
    assert "example" in html
    assert "Completed" in html


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for source in (run, run.tensor("loss")):
        with pytest.raises(MissingExtraError, match=rf"^to_{library}\(\) needs .*: pip install {library}$"):
            getattr(source, f"to_{library}")()


def test_an_unknown_table_is_refused(run: Run) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scalars'"):
        run.to_pandas("scalar")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(run: Run, library: str) -> None:
    pytest.importorskip(library)
    losses = getattr(run, f"to_{library}")()
    assert list(losses["value"]) == run.scalars()["value"].to_pylist()
    gradient = getattr(run.tensor(GRADIENT), f"to_{library}")()
    assert list(gradient.columns) == ["step", "mode", "worker", "time_ns", "abs_mean", "nonfinite_count"]
    assert list(gradient["abs_mean"]) == [0.0, 0.5]
