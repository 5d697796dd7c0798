"""What a worker of Ray Train runs: its function, watched, and ended by a stop without an exception."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from leadline.errors import TrainingStopped
from leadline.integrations import ray
from leadline.training.session import api


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setenv("LEADLINE_RUN", "another")  # restored after the test
    monkeypatch.setattr(ray, "watch", lambda **options: calls.append((os.environ["LEADLINE_RUN"], options)))
    monkeypatch.setattr(api, "stop_current", lambda: calls.append("ended"))
    return calls


def test_the_function_is_watched_and_returns_what_it_returns(calls: list[Any]) -> None:
    def train_loop(config: dict[str, int]) -> int:
        calls.append(config)
        return config["steps"]

    loop = ray.watched(train_loop, run="/shared/run", preset="light")
    assert inspect.signature(loop) == inspect.signature(train_loop)  # Ray passes what it takes
    assert loop({"steps": 3}) == 3
    assert calls == [("/shared/run", {"preset": "light"}), {"steps": 3}, "ended"]


def test_a_stop_is_no_failure_and_a_failure_stays_one(calls: list[Any]) -> None:
    def stopped() -> None:
        raise TrainingStopped("stopped")

    def failing() -> None:
        raise ZeroDivisionError

    assert ray.watched(stopped, run="/run")() is None
    with pytest.raises(ZeroDivisionError):
        ray.watched(failing, run="/run")()
    assert calls.count("ended") == 2


def test_without_a_name_the_run_is_named_once_for_all_workers(
    calls: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_ROOT", str(tmp_path))

    def train_loop() -> None:
        return None

    loop = ray.watched(train_loop)
    loop()
    loop()
    (first, _), (second, _) = calls[::2]
    assert first == second
    assert Path(first).parent == tmp_path
    assert Path(first).name.startswith("train_loop-")
