"""``leadline ls``: plain lines, the width of a terminal, and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.cli import ls
from leadline.reader.find_runs import list_runs
from leadline.records.outcome import RunOutcome
from leadline.testing.runs import START_NS, Capture, RunWriter

OUTCOME = "Completed: 1 step; no rules were evaluated."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for at, name in enumerate(("first", "a-longer-name", "ill\x1b[2J")):
        writer = RunWriter(tmp_path / name, started_ns=START_NS + at).write_all([Capture(0, {"loss": {"value": 1.0}})])
        writer.end()
    return tmp_path


def test_without_a_terminal_the_runs_are_plain_lines(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ls.ls(str(root))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "ill?[2J", "a-longer-name", "first"]
    assert len({line.index("no rules were evaluated.") for line in lines[1:]} | {lines[0].index("OUTCOME")}) == 1
    assert all(line.split()[1:5] == ["–", "no", "verdict", "Completed"] for line in lines[1:])


@pytest.mark.parametrize("width", [1, 60, 80, 200])
def test_only_the_outcome_is_cut_to_the_width(root: Path, width: int) -> None:
    outcome = RunOutcome("Completed: 1 step; a long story", verdict="a long story, of which only the start is shown")
    runs = [replace(run, outcome=outcome) for run in list_runs(root)]
    lines = ls._table(runs, str(root), width).plain.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["ill?[2J", "a-longer-name", "first"]
    assert all(len(line) <= max(width, len(lines[0]) - len("OUTCOME") + 20) for line in lines)
    assert all(line.endswith("…" if width < 100 else "shown.") for line in lines[1:])


def test_json_has_the_outcome(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ls.ls(str(root), as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["ill\x1b[2J", "a-longer-name", "first"]
    assert rows[0]["outcome"]["text"] == OUTCOME
    assert (rows[0]["status"], rows[0]["steps"]) == ("Completed", {"train": 1})
