"""``leadline ls`` with more runs than a table is laid out for."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.cli import ls
from leadline.reader.find_runs import list_runs
from leadline.testing.runs import START_NS, Capture, RunWriter


def test_many_runs_are_printed_as_plain_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ls, "_MAX_TABLE_ROWS", 2)
    for at, name in enumerate(("first", "a-longer-name", "ill\x1b[2J")):
        writer = RunWriter(tmp_path / name, started_ns=START_NS + at).write_all([Capture(0, {"loss": {"value": 1.0}})])
        writer.end()
    assert len(list_runs(tmp_path)) == 3
    ls.ls(str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "ill?[2J", "a-longer-name", "first"]
    assert len({line.index("Completed") for line in lines[1:]} | {lines[0].index("STATUS")}) == 1
