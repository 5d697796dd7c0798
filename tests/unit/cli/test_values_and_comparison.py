"""``leadline tensors``, ``values`` and ``compare``: plain tables, CSV and JSON of what a run captured."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from generated_runs import float_tensors
from typer.testing import CliRunner

from leadline.cli.app import application
from leadline.errors import ConfigurationError, NotCapturedError, RunNotFoundError, UnknownNameError
from leadline.judge.judge import Judge
from leadline.records.manifest import RuleSpec
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.testing.runs import Capture, RunWriter

GRADIENT = "gradient/fc.weight"
LOSSES = (4.0, 2.0, 1.0, math.nan)
Call = Callable[..., str]


def write(root: Path, name: str, losses: tuple[float, ...], limit: float) -> None:
    """Write a run with losses at every step, gradients at every other one, and one raw weight."""
    rules = (RuleSpec("vanishing_gradient", "vanishing_gradient", {"threshold": limit}),)
    parts = [Capture(step, {"loss": {"value": loss}}) for step, loss in enumerate(losses)]
    parts += [Capture(step, {GRADIENT: {"abs_mean": 0.5, "l2": 2.0}}) for step in range(0, len(losses), 2)]
    eval_step = Capture(len(losses), {"loss": {"value": 7.0}}, mode="eval", mode_step=0)
    writer = RunWriter(root / name, rules=rules).write_all([*parts, float_tensors(2, {"fc.weight": [1.0]}), eval_step])
    writer.end()
    Judge(writer.path).judge(follow=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write(root, "first", LOSSES, 1.0)
    write(root, "second", (3.0, 2.5), 0.1)
    return root


@pytest.fixture
def call(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("LEADLINE_ROOT", str(runs))

    def run_command(*words: str) -> str:
        done = CliRunner().invoke(application(words[0]), list(words), standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.output

    return run_command


def rows_of(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_tensors_are_listed(call: Call) -> None:
    assert rows_of(call("tensors", "first")) == [
        ["NAME", "SHAPE", "COLLECTIONS", "STATISTICS"],
        ["loss", "scalar", "losses,", "scalars", "value"],
        [GRADIENT, "scalar", "gradients", "abs_mean,", "l2"],
        ["fc.weight", "1", "raw"],
    ]
    assert [row[0] for row in rows_of(call("tensors", "first", "--collection", "gradients"))] == ["NAME", GRADIENT]
    assert [row[0] for row in rows_of(call("tensors", "first", "--regex", "weight$"))[1:]] == [GRADIENT, "fc.weight"]
    assert [row["name"] for row in json.loads(call("tensors", "first", "--step", "1", "--json"))] == ["loss"]
    assert [row["name"] for row in json.loads(call("tensors", "first", "--mode", "eval", "--json"))] == ["loss"]


def test_one_statistic_of_all_tensors(call: Call) -> None:
    head, *rows = call("tensors", "first", "--statistic", "abs_mean", "--regex", "fc").splitlines()
    assert head.endswith("ABS_MEAN, FIRST → LAST")
    assert [row.split() for row in rows] == [[GRADIENT, "scalar", "gradients", "0.5", "→", "0.5"]]
    assert call("tensors", "first", "--statistic", "value", "--mode", "eval").strip().endswith("7 at step 4")
    (loss,) = json.loads(call("tensors", "first", "--statistic", "value", "--mode", "train", "--json"))
    assert (loss["first"], loss["first_step"], loss["last"], loss["last_step"]) == (4.0, 0, "NaN", 3)


def test_values_are_a_curve_and_rows(call: Call) -> None:
    lines = rows_of(call("values", "first", "loss", "--rows", "2"))
    assert lines[0] == ["loss", "scalar", "losses,", "scalars", "4", "rows,", "mode", "train"]
    assert lines[2] == ["value", "4", "→", "NaN", "1", "…", "4", "█▃▁"]
    assert lines[4][:7] == ["the", "last", "2", "of", "4", "rows;", "--rows"]
    assert lines[5:] == [["STEP", "value"], ["2", "1"], ["3", "NaN"]]
    everything = rows_of(call("values", "first", GRADIENT, "--statistic", "abs_mean", "--rows", "0"))
    assert everything[-3:] == [["STEP", "abs_mean"], ["0", "0.5"], ["2", "0.5"]]


def test_values_as_csv_and_json_are_all_rows(call: Call) -> None:
    rows = list(csv.DictReader(io.StringIO(call("values", "first", "loss", "--csv"))))
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]
    assert [float(row["value"]) for row in rows[:3]] == [4.0, 2.0, 1.0]
    assert math.isnan(float(rows[3]["value"]))
    decoded = json.loads(call("values", "first", "loss", "--json"))
    assert [row["value"] for row in decoded] == [4.0, 2.0, 1.0, "NaN"]
    (evaluated,) = json.loads(call("values", "first", "loss", "--mode", "eval", "--json"))
    assert (evaluated["step"], evaluated["value"]) == (0, 7.0)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("values", "first", "los"), NotCapturedError, "did you mean 'loss'"),
        (("values", "first", "loss", "--statistic", "valu"), UnknownNameError, "did you mean 'value'"),
        (("values", "first", "loss", "--worker", "rank7"), UnknownNameError, "no worker named 'rank7'"),
        (("values", "first", "loss", "--mode", "trian"), UnknownNameError, "did you mean 'train'"),
        (("values", "first", GRADIENT, "--mode", "eval"), NotCapturedError, "captured in train; see --mode"),
        (("values", "first", "fc.weight"), NotCapturedError, "stored as a raw tensor at 1 step"),
        (("values", "first", "loss", "more"), ConfigurationError, "one run and one tensor"),
        (("tensors", "first", "--collection", "gradient"), UnknownNameError, "did you mean 'gradients'"),
        (("tensors", "first", "--statistic", "abs_men"), UnknownNameError, "did you mean 'abs_mean'"),
        (("tensors", "first", "--regex", "("), ConfigurationError, r"--regex \("),
        (("compare", "first"), ConfigurationError, "two to 5 runs"),
        (("compare", "first", "secnd"), RunNotFoundError, "did you mean 'second'"),
    ],
)
def test_mistakes_are_named(call: Call, words: tuple[str, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(*words)


def test_runs_are_compared(call: Call) -> None:
    lines = call("compare", "first", "second").splitlines()
    assert [line.split("  ")[0] for line in lines[:2]] == ["first", "second"]
    cells = [[cell.strip() for cell in line.split("  ") if cell] for line in lines[2:]]
    assert ["preset", "standard", "standard"] in cells
    assert ["loss", "4 → NaN (1 … 4)", "3 → 2.5 (2.5 … 3)"] in cells
    assert ["loss (eval)", "7 → 7 (7 … 7)", "7 → 7 (7 … 7)"] in cells
    assert ["vanishing_gradient", "fired at step 0", "clear"] in cells
    assert ["rules.vanishing_gradient.threshold", "1.0", "0.1"] in cells
    compared = json.loads(call("compare", "first", "second", "first", "--json"))
    assert [run["name"] for run in compared["runs"]] == ["first", "second", "first"]
    assert compared["rules"]["vanishing_gradient"] == ["fired at step 0", "clear", "fired at step 0"]
    (train, _) = compared["scalars"]
    assert [value["last"] for value in train["values"]] == ["NaN", 2.5, "NaN"]
    assert train["changes"] == [None, None, None]


def test_runs_with_the_same_name_are_told_apart_by_their_paths(call: Call, tmp_path: Path) -> None:
    paths = [tmp_path / folder / "train" for folder in ("mine", "yours")]
    for path, loss in zip(paths, (0.1, 2.0), strict=True):
        path.parent.mkdir()
        RunWriter(path).write_all([Capture(step, {"loss": {"value": loss}}) for step in range(3)]).end()
    lines = call("compare", *map(str, paths)).splitlines()
    assert [line.split("  ")[0] for line in lines[:2]] == ["mine/train", "yours/train"]
    facts = next(line for line in lines if line.startswith("FACTS"))
    assert facts.split()[1:] == ["mine/train", "yours/train"]
    assert any("2, +1,900 % (2 … 2)" in line for line in lines)


def test_levels_are_means_of_the_last_tenth_with_the_change_from_the_first_run(call: Call, runs: Path) -> None:
    for name, end in (("before", 2.0), ("after", 1.5)):
        losses = (*(4.0,) * 36, end - 0.5, end + 0.5, end, end)
        parts = [Capture(step, {"loss": {"value": loss}}) for step, loss in enumerate(losses)]
        RunWriter(runs.parent / name).write_all(parts).end()
    words = ("compare", str(runs.parent / "before"), str(runs.parent / "after"))
    cells = [[cell.strip() for cell in line.split("  ") if cell] for line in call(*words).splitlines()]
    assert ["loss", "4 → 2 (1.5 … 4)", "4 → 1.5, -25 % (1 … 4)"] in cells
    (loss,) = json.loads(call(*words, "--json"))["scalars"]
    assert [value["level"] for value in loss["values"]] == [2.0, 1.5]
    assert loss["changes"] == [None, -0.25]


def test_cells_that_differ_never_look_alike_on_a_narrow_terminal(
    call: Call, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rate in (("slow", "0.01"), ("fast", "10")):
        writer = RunWriter(runs.parent / "rates" / name)
        command = ("/usr/local/lib/some/environment/bin/python", "train.py", "--rate", rate)
        document = replace(writer.manifest, command=command).to_dict()
        write_document(str(runs.parent / "rates" / name / layout.MANIFEST), document)
        writer.end()
    monkeypatch.setenv("LEADLINE_ROOT", str(runs.parent / "rates"))
    monkeypatch.setattr("leadline.cli.compare.table_width", lambda: 60)
    lines = call("compare", "slow", "fast").splitlines()
    assert lines[lines.index(next(line for line in lines if line.startswith("HYPERPARAMETERS"))) + 1].split() == [
        "rate",
        "0.01",
        "10",
    ]
    assert json.loads(call("compare", "slow", "fast", "--json"))["hyperparameters"] == {"rate": ["0.01", "10"]}
    (row,) = [line for line in call("compare", "slow", "fast").splitlines() if line.startswith("command")]
    assert row.split() == ["command", "…", "--rate", "0.01", "…", "--rate", "10"]


def test_the_list_of_tensors_fits_a_terminal(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.cli.tensors.table_width", lambda: 80)
    lines = call("tensors", "first").splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith(GRADIENT) for line in lines)
