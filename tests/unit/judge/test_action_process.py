"""An action worker as the judge sees it, from its start to its end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recording_actions import ACTIONS, PATIENCE_SECONDS, finding

from leadline.judge import action_transports
from leadline.judge.action_transports import ActionProcess


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[ActionProcess]:
    (tmp_path / "mine.py").write_text(ACTIONS)
    parameters = {"path": str(tmp_path / "noted")}
    setup = {"run": str(tmp_path), "action": "mine.py:Note", "parameters": parameters, "folder": str(tmp_path)}
    made = ActionProcess(setup)
    yield made
    made.end()


def receive(worker: ActionProcess, key: str) -> dict[str, Any]:
    """Return the next answer with a key; the time limit ends the test if there is none."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until and not worker.failure(0.0):
        for answer in worker.receive():
            if key in answer:
                return answer
    raise AssertionError(f"no answer with {key}")


def message() -> dict[str, Any]:
    return {"notice": finding(7).to_dict(), "workers": [], "now_ns": 0}


def test_from_its_start_to_its_end(worker: ActionProcess, tmp_path: Path) -> None:
    assert (worker.state, worker.descriptor) == ("off", None)
    worker.start()
    assert worker.state == "starting"
    receive(worker, "policy")
    assert worker.state == "idle"
    worker.ask(message())
    assert worker.state == "preparing"
    assert receive(worker, "outcome")["outcome"] == "noted e/opened/7"
    assert worker.state == "idle"
    worker.retire()
    assert worker.state == "closing"
    receive(worker, "closed")
    worker.receive()
    assert worker.failure(0.0) == "its process exited with status 0"
    worker.end()
    assert (worker.state, worker.descriptor) == ("off", None)
    assert (tmp_path / "noted").read_text().split() == ["e/opened/7", "closed"]


def test_a_busy_worker_is_killed_instead_of_awaited(worker: ActionProcess, tmp_path: Path) -> None:
    (tmp_path / "noted.do").write_text("hang")
    worker.timeout = 0.0
    worker.start()
    receive(worker, "policy")
    worker.ask(message())
    receive(worker, "begun")
    assert worker.state == "busy"
    assert worker.failure(time.monotonic() + 0.1) == "gave no answer for 0 s"
    worker.retire()
    assert worker.state == "off"


@pytest.mark.parametrize("state", ["starting", "preparing", "closing"])
def test_every_state_has_a_time_limit(worker: ActionProcess, state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("START_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(action_transports, name, 5.0)
    worker.start()
    worker._set_state(state)
    now = time.monotonic()
    assert not worker.failure(now)
    assert worker.failure(now + 5.1) == "gave no answer for 5 s"
    worker._set_state("idle")
    assert not worker.failure(now + 3600.0)


def test_a_worker_that_cannot_be_started_leaves_no_open_descriptor(
    worker: ActionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        worker.start()
    assert worker.descriptor is None
    assert len(os.listdir("/proc/self/fd")) == len(before)
