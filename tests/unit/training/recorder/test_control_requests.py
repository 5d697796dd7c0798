"""Control requests are looked for seldom, and taken up at the step that they name and at every one after it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from leadline.errors import TrainingStopped
from leadline.records.request import Request
from leadline.store.control import read_acknowledgements, write_request
from leadline.training.recorder.control_requests import ControlRequests


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

    monkeypatch.setattr("leadline.store.control.os.stat", counted)
    monkeypatch.setattr("leadline.training.recorder.control_requests.time.monotonic_ns", lambda: now)
    watch = ControlRequests(str(run), lambda: "rank0-1")
    for step in range(1000):
        now += 1_000_000
        watch.obey(step)
    assert 15 <= len(looked) <= 21


def test_a_stop_is_obeyed_from_its_step_on_and_for_ever(run: Path) -> None:
    write_request(str(run), Request("1", "stop", step=7, reason="why", by="rule:x", time_ns=time.time_ns()))
    watch = ControlRequests(str(run), lambda: "rank0-1")
    watch.obey(6)
    for step in (7, 8, 9):
        with pytest.raises(TrainingStopped, match=f"at step {step}: why"):
            watch.obey(step)
    assert len(list((run / "control" / "acks").iterdir())) == 1


def test_each_kind_goes_to_who_serves_it_and_is_read_once(run: Path) -> None:
    watch, taken = ControlRequests(str(run), lambda: "rank0-1"), []
    watch.serve("track", lambda request: taken.append(request.id))
    write_request(str(run), Request("1", "track"))
    watch.obey(6)
    write_request(str(run), Request("2", "track"))
    for each in range(3):
        time.sleep(0.06)  # it looks every 50 ms
        watch.obey(7 + each)
    assert taken == ["1", "2"]
    assert read_acknowledgements(str(run)) == []


def test_what_is_the_agents_is_left_alone_and_what_nobody_knows_is_refused(run: Path) -> None:
    for identifier, kind in (("1", "run_command"), ("2", "set"), ("3", "stpo")):
        write_request(str(run), Request(identifier, kind))
    ControlRequests(str(run), lambda: "rank0-1").obey(6)
    (answer,) = read_acknowledgements(str(run))
    assert (answer.id, answer.worker, answer.step) == ("3", "rank0-1", 6)
    assert answer.outcome == "refused: no worker knows the request 'stpo'"
