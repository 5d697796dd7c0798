"""Lazy reading of the parts of a run; large parts are read only on request."""

from __future__ import annotations

import pytest
from timelines import step_rows

from leadline.reader import archive
from leadline.reader.run import Run
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, RunWriter, SystemSample

RUN_PARTS = [
    Capture(0, {"loss": {"value": 1.0}, "fc.weight": {"l2": 2.0}}),
    Capture(1, {"accuracy": {"value": 0.5}}, mode="eval"),
    SystemSample(START_NS),
    *step_rows(0, START_NS, {"data": 5.0}),
]


@pytest.fixture
def path(tmp_path) -> str:
    return RunWriter(tmp_path / "run").write_all(RUN_PARTS).end().path


def read_parts(run: Run) -> set[str]:
    return {part for part, _ in run.archive._streams}


def test_a_part_is_read_when_it_is_accessed(path: str) -> None:
    run = Run(path)
    assert read_parts(run) == set()
    assert run.system_metrics().num_rows == 1
    assert read_parts(run) == {layout.SYSTEM}
    assert (run.steps(), run.steps("eval")) == ([0], [1])
    assert read_parts(run) == {layout.SYSTEM, layout.SERIES}
    assert run.timeline().num_rows == 2
    assert run.damage == []
    assert read_parts(run) == {layout.SYSTEM, layout.SERIES, layout.TIMELINE}


def test_names_of_a_large_run_are_read_without_its_rows(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Run(path)
    expected = (small.tensor_names(), small.workers(), small.archive.infos())
    monkeypatch.setattr(archive, "LARGE_PART_BYTES", 10)
    run = Run(path)
    assert (run.tensor_names(), run.workers(), run.archive.infos()) == expected
    assert run.damage == []
    assert "many steps" in repr(run)
    assert read_parts(run) == set()
    assert run.tensor("loss").steps() == [0]
    assert run.scalars("accuracy")["value"].to_pylist() == [0.5]
    assert run.modes() == ["eval", "train"]


def test_verifying_reads_even_a_large_run(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGE_PART_BYTES", 10)
    segment = f"{path}/{layout.segment(layout.SYSTEM, 'node', 1)}"
    with open(segment, "r+b") as file:
        file.seek(-30, 2)
        file.write(b"\xff" * 8)
    run = Run(path)
    assert run.damage == []
    assert any("system/node/000001.arrow" in line for line in run.verify())
