"""Control requests are looked for seldom, and taken up at the step that they name and at every one after it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from leadline.capture.control import ControlWatch
from leadline.errors import StopTraining
from leadline.records.request import Request
from leadline.store.control import write_request


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "control" / "acks").mkdir(parents=True)
    return tmp_path


def test_many_steps_look_at_the_disk_a_few_times(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, now, stat = [], 10**12, os.stat

    def counted(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path).startswith(str(run)):
            looked.append(path)
        return stat(path, *args, **kwargs)

    monkeypatch.setattr("leadline.capture.control.os.stat", counted)
    monkeypatch.setattr("leadline.capture.control.time.monotonic_ns", lambda: now)
    watch = ControlWatch(str(run), lambda: "rank0-1")
    for step in range(1000):
        now += 1_000_000
        watch.obey(step)
    assert 15 <= len(looked) <= 21


def test_a_stop_is_obeyed_from_its_step_on_and_for_ever(run: Path) -> None:
    write_request(str(run), Request("1", "stop", step=7, reason="why", by="rule:x", time_ns=time.time_ns()))
    watch = ControlWatch(str(run), lambda: "rank0-1")
    watch.obey(6)
    for step in (7, 8, 9):
        with pytest.raises(StopTraining, match=f"at step {step}: why"):
            watch.obey(step)
    assert len(list((run / "control" / "acks").iterdir())) == 1
