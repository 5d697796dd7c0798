"""Control requests are checked rarely, and handled from the step that they name on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from leadline.errors import TrainingStopped
from leadline.instrumentation.step_context import StepContext
from leadline.records.request import Stop, Track
from leadline.store import layout
from leadline.store.control import read_acknowledgements, write_request
from leadline.store.documents import write_document
from leadline.training.recorder.control_requests import ControlRequests


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "control" / "acks").mkdir(parents=True)
    return tmp_path


def finish(context: StepContext, mode: str, count: int = 1) -> int:
    """Finish some steps of a mode, and return the last global step."""
    for _ in range(count):
        context.clock.tick(mode)
    return context.step - 1


def test_many_steps_check_the_disk_only_a_few_times(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, now, stat = [], 10**12, os.stat

    def counted(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path).startswith(str(run)):
            looked.append(path)
        return stat(path, *args, **kwargs)

    monkeypatch.setattr("leadline.store.control.os.stat", counted)
    monkeypatch.setattr("leadline.training.recorder.control_requests.time.monotonic_ns", lambda: now)
    requests = ControlRequests(StepContext(str(run), lambda: "rank0-1"))
    for step in range(1000):
        now += 1_000_000
        requests.handle_pending(step)
    assert 15 <= len(looked) <= 21


def test_a_stop_applies_from_its_step_on(run: Path) -> None:
    write_request(str(run), Stop("1", step=7, reason="why", by="rule:x", time_ns=time.time_ns()))
    context = StepContext(str(run), lambda: "rank0-1")
    requests = ControlRequests(context)
    requests.handle_pending(finish(context, "train", 7))
    for step in (7, 8, 9):
        with pytest.raises(TrainingStopped, match=f"at step {step}: why"):
            requests.handle_pending(finish(context, "train"))
    assert len(list((run / "control" / "acks").iterdir())) == 1


def test_a_stop_that_lets_the_script_finish_ends_the_loop_instead(run: Path) -> None:
    stop = Stop("1", step=7, reason="why", by="rule:x", time_ns=time.time_ns(), let_script_finish=True)
    write_request(str(run), stop)
    context, asked = StepContext(str(run), lambda: "rank0-1"), []
    requests = ControlRequests(context, lambda: asked.append(context.train_step) is None)
    for _ in range(9):
        requests.handle_pending(finish(context, "train"))
    assert asked == [8, 9]
    ((acknowledgement,),) = read_acknowledgements(str(run)).values()
    assert acknowledgement.step == 7


def test_without_such_a_loop_it_stops_the_script(run: Path) -> None:
    write_request(str(run), Stop("1", reason="why", by="user", time_ns=time.time_ns(), let_script_finish=True))
    context = StepContext(str(run), lambda: "rank0-1")
    with pytest.raises(TrainingStopped, match="why") as raised:
        ControlRequests(context).handle_pending(finish(context, "train", 2))
    assert raised.value.code == 10


def test_a_stop_names_the_train_step_that_was_finished(run: Path) -> None:
    write_request(str(run), Stop("1", step=5, reason="why", by="rule:x", time_ns=time.time_ns()))
    context = StepContext(str(run), lambda: "rank0-1")
    requests = ControlRequests(context)
    requests.handle_pending(finish(context, "train", 4))
    with pytest.raises(TrainingStopped, match="at step 3: why"):
        requests.handle_pending(finish(context, "eval", 2))
    ((acknowledgement,),) = read_acknowledgements(str(run)).values()
    assert acknowledgement.step == 3


def test_each_kind_goes_to_its_handler_and_is_read_once(run: Path) -> None:
    requests, taken = ControlRequests(StepContext(str(run), lambda: "rank0-1")), []
    requests.serve(Track, lambda request: taken.append(request.id))
    write_request(str(run), Track("1", rule="exploding", value=0.5))
    requests.handle_pending(6)
    write_request(str(run), Track("2", rule="exploding", value=0.5))
    for offset in range(3):
        time.sleep(0.06)  # it looks every 50 ms
        requests.handle_pending(7 + offset)
    assert taken == ["1", "2"]
    assert read_acknowledgements(str(run)) == {}


def test_requests_for_agents_are_ignored_and_unknown_kinds_refused(run: Path) -> None:
    for identifier, kind in (("1", "run_command"), ("2", "set"), ("3", "stpo")):
        write_document(str(run / layout.request(identifier)), {"id": identifier, "kind": kind})
    context = StepContext(str(run), lambda: "rank0-1")
    ControlRequests(context).handle_pending(finish(context, "train", 7))
    ((acknowledgement,),) = read_acknowledgements(str(run)).values()
    assert (acknowledgement.id, acknowledgement.worker, acknowledgement.step) == ("3", "rank0-1", 6)
    assert str(acknowledgement.answer) == "refused: unknown request kind 'stpo'"
