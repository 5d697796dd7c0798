"""``leadline ls``: plain lines, the width of a terminal, and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.cli import ls
from leadline.reader.find_runs import list_runs
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
    assert len({line.index(OUTCOME) for line in lines[1:]} | {lines[0].index("OUTCOME")}) == 1


@pytest.mark.parametrize("width", [1, 60, 80, 200])
def test_only_the_outcome_is_cut_to_the_width(root: Path, width: int) -> None:
    lines = ls._table(list_runs(root), str(root), width).plain.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["ill?[2J", "a-longer-name", "first"]
    assert all(len(line) <= max(width, len(lines[0]) - len("OUTCOME") + 24) for line in lines)
    assert all(line.endswith("…" if width < 100 else "evaluated.") for line in lines[1:])


def test_json_has_the_outcome(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ls.ls(str(root), as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["ill\x1b[2J", "a-longer-name", "first"]
    assert rows[0]["outcome"]["text"] == OUTCOME
    assert (rows[0]["status"], rows[0]["steps"]) == ("Completed", {"train": 1})
