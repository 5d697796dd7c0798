"""Compaction by the agent: after growth and at the end; a failure is reported once and ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.agent import compaction_process
from leadline.agent.compaction_process import Compaction, raw_bytes
from leadline.testing.runs import START_NS, RunWriter, SystemSample


class _Spawned:
    """Stands where processes are started."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], *_: object, **__: object) -> int:
        self.commands.append(command)
        return 100 + len(self.commands)


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> _Spawned:
    found = _Spawned()
    monkeypatch.setattr(compaction_process, "spawn", found)
    return found


def compaction_of(run: str, warnings: list[str], sessions: set[int]) -> Compaction:
    environment = {"LEADLINE_COMPACT_BYTES": "3000"}
    return Compaction(run, environment, None, sessions=sessions, warn=warnings.append)  # type: ignore[arg-type]


def grow(writer: RunWriter, samples: int) -> None:
    for index in range(samples):
        writer.write(SystemSample(START_NS + index))


def test_a_run_is_compacted_each_time_that_it_has_grown(tmp_path: Path, spawned: _Spawned) -> None:
    writer, warnings, sessions = RunWriter(tmp_path / "run"), list[str](), set[int]()
    run = compaction_of(writer.path, warnings, sessions)
    run.poll(0.0)
    assert spawned.commands == []
    grow(writer, 20)
    assert raw_bytes(writer.path) > 3000
    run.poll(100.0)
    assert len(spawned.commands) == 1
    assert sessions == {101}
    run.poll(200.0)
    assert len(spawned.commands) == 1, "one at a time"
    run.on_exit(101, 0)
    run.poll(300.0)
    assert len(spawned.commands) == 1, "nothing came since"
    grow(writer, 20)
    run.poll(400.0)
    assert len(spawned.commands) == 2
    assert warnings == []


def test_the_rest_of_a_large_run_is_compacted_at_its_end(tmp_path: Path, spawned: _Spawned) -> None:
    writer = RunWriter(tmp_path / "run")
    small = compaction_of(writer.path, [], set())
    small.finish()
    assert spawned.commands == []
    grow(writer, 20)
    small.finish()
    assert spawned.commands[0][-1] == "--final"


def test_a_failed_compaction_is_reported_once(tmp_path: Path, spawned: _Spawned) -> None:
    writer, warnings = RunWriter(tmp_path / "run"), list[str]()
    run = compaction_of(writer.path, warnings, set())
    grow(writer, 20)
    run.poll(0.0)
    run.on_exit(7, 1)
    assert warnings == []
    run.on_exit(101, 1)
    grow(writer, 20)
    run.poll(500.0)
    run.finish()
    assert len(warnings) == len(spawned.commands) == 1
    assert "status 1" in warnings[0]


def test_a_removed_run_has_no_bytes(tmp_path: Path) -> None:
    assert raw_bytes(str(tmp_path / "gone")) == 0
