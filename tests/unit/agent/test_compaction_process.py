"""Compaction by the agent: after growth and at the end; a failure is reported once and ends it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from leadline.agent.compaction_process import Compaction, raw_bytes
from leadline.agent.signals import SignalGate
from leadline.testing.runs import START_NS, RunWriter, SystemSample


class _Gate:
    """Starts nothing; the processes exit when the test says so."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.children: list[SimpleNamespace] = []

    def spawn(self, command: list[str], *_: object, **__: object) -> SimpleNamespace:
        self.commands.append(command)
        self.children.append(SimpleNamespace(pid=100 + len(self.commands), code=None))
        return self.children[-1]


@pytest.fixture
def spawned() -> _Gate:
    return _Gate()


def compaction_of(run: str, gate: _Gate, warnings: list[str]) -> Compaction:
    environment = {"LEADLINE_COMPACT_BYTES": "3000"}
    return Compaction(run, environment, cast(SignalGate, gate), warn=warnings.append)


def grow(writer: RunWriter, samples: int) -> None:
    for index in range(samples):
        writer.write(SystemSample(START_NS + index))


def test_a_run_is_compacted_each_time_that_it_has_grown(tmp_path: Path, spawned: _Gate) -> None:
    writer, warnings = RunWriter(tmp_path / "run", compresses=False), list[str]()
    run = compaction_of(writer.path, spawned, warnings)
    run.poll(0.0)
    assert spawned.commands == []
    grow(writer, 20)
    assert raw_bytes(writer.path) > 3000
    run.poll(100.0)
    assert len(spawned.commands) == 1
    run.poll(200.0)
    assert len(spawned.commands) == 1, "one at a time"
    spawned.children[0].code = 0
    run.poll(300.0)
    assert len(spawned.commands) == 1, "nothing came since"
    grow(writer, 20)
    run.poll(400.0)
    assert len(spawned.commands) == 2
    assert warnings == []


def test_the_rest_of_a_large_run_is_compacted_at_its_end(tmp_path: Path, spawned: _Gate) -> None:
    writer = RunWriter(tmp_path / "run")
    small = compaction_of(writer.path, spawned, [])
    small.finish()
    assert spawned.commands == []
    grow(writer, 20)
    small.finish()
    assert spawned.commands[0][-1] == "--final"


def test_a_failed_compaction_is_reported_once(tmp_path: Path, spawned: _Gate) -> None:
    writer, warnings = RunWriter(tmp_path / "run"), list[str]()
    run = compaction_of(writer.path, spawned, warnings)
    grow(writer, 20)
    run.poll(0.0)
    run.poll(1.0)
    assert warnings == []
    spawned.children[0].code = 1
    grow(writer, 20)
    run.poll(500.0)
    run.finish()
    assert len(warnings) == len(spawned.commands) == 1
    assert "status 1" in warnings[0]


def test_a_removed_run_has_no_bytes(tmp_path: Path) -> None:
    assert raw_bytes(str(tmp_path / "gone")) == 0
