"""A courier as the judge sees it, from its start to its end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from following import ACTIONS, PATIENCE_SECONDS, finding

from leadline.judge import action_process
from leadline.judge.action_process import ActionProcess


@pytest.fixture
def courier(tmp_path: Path) -> Iterator[ActionProcess]:
    (tmp_path / "mine.py").write_text(ACTIONS)
    parameters = {"path": str(tmp_path / "noted")}
    order = {"run": str(tmp_path), "action": "mine.py:Note", "parameters": parameters, "folder": str(tmp_path)}
    made = ActionProcess(order)
    yield made
    made.end()


def hear(courier: ActionProcess, key: str) -> dict[str, Any]:
    """Its next answer that has a word in it; a pipe that never speaks ends the test by its time limit."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until and not courier.has_ended:
        for answer in courier.receive():
            if key in answer:
                return answer
    raise AssertionError(f"it never said {key}")


def message() -> dict[str, Any]:
    return {"notice": finding(7).to_dict(), "workers": [], "now_ns": 0}


def test_from_its_start_to_its_end(courier: ActionProcess, tmp_path: Path) -> None:
    assert (courier.state, courier.descriptor) == ("off", None)
    courier.start()
    assert courier.state == "starting"
    hear(courier, "manners")
    assert courier.state == "idle"
    courier.ask(message())
    assert courier.state == "preparing"
    assert hear(courier, "outcome")["outcome"] == "noted e/opened/7"
    assert courier.state == "idle"
    courier.retire()
    assert courier.state == "closing"
    hear(courier, "closed")
    courier.receive()
    assert courier.has_ended
    assert courier.how_it_ended() == "its process ended with status 0"
    courier.end()
    assert (courier.state, courier.descriptor) == ("off", None)
    assert (tmp_path / "noted").read_text().split() == ["e/opened/7", "closed"]


def test_one_that_is_busy_is_not_waited_for(courier: ActionProcess, tmp_path: Path) -> None:
    (tmp_path / "noted.do").write_text("hang")
    courier.timeout = 0.0
    courier.start()
    hear(courier, "manners")
    courier.ask(message())
    hear(courier, "begun")
    assert courier.state == "busy"
    assert courier.is_late(time.monotonic() + 0.1)
    courier.retire()
    assert courier.state == "off"


@pytest.mark.parametrize("state", ["starting", "preparing", "closing"])
def test_each_state_has_its_limit(courier: ActionProcess, state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("START_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(action_process, name, 5.0)
    courier._turn_to(state)
    now = time.monotonic()
    assert not courier.is_late(now)
    assert courier.is_late(now + 5.1)
    courier._turn_to("idle")
    assert not courier.is_late(now + 3600.0)


def test_one_that_cannot_be_started_leaves_nothing_open(
    courier: ActionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(action_process.sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        courier.start()
    assert courier.descriptor is None
    assert len(os.listdir("/proc/self/fd")) == len(before)
