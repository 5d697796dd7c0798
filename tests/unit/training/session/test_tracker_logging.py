"""Rule statuses are logged to the script's trackers in a thread of our own, whatever the trackers do."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.frameworks.loggers.interceptor import ScriptTracker
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.step_context import StepContext
from leadline.records.request import Acknowledgement, Answer, Stop, Track
from leadline.store.control import acknowledge, read_acknowledgements, write_request
from leadline.training.session.tracker_logging import TrackerLogging

PATIENCE = 60.0


@dataclass
class FakeTracker:
    """A tracker that records its calls and their threads."""

    library: str = "wandb"
    title: str = "wandb run abc"
    error: Exception | None = None
    gate: threading.Event | None = None
    records: list[tuple[str, float, int]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def log(self, name: str, value: float, step: int) -> None:
        self.threads.add(threading.current_thread().name)
        if self.gate is not None:
            self.gate.wait()
        if self.error is not None:
            raise self.error
        self.records.append((name, value, step))


class TrackerLoggingCase:
    """A run with tracker logging, and its acknowledgements."""

    def __init__(self, run: Path) -> None:
        (run / "control" / "acks").mkdir(parents=True)
        self.run, self.trackers, self.failures = run, list[ScriptTracker](), list[str]()
        context = StepContext(str(run), lambda: "rank0-1")
        context.clock.step = 42
        self.tracking = TrackerLogging(context, self.find, Guard(self.failures.append).wrap)

    def find(self) -> Sequence[ScriptTracker]:
        return self.trackers

    def ask(self, identifier: str, **parameters: Any) -> Track:
        plain = {"rule": "stall", "value": 1.0, "step": 7, "to": "every"}
        request = Track(identifier, **plain | parameters)
        write_request(str(self.run), request)
        return request

    def answer(self, identifier: str) -> Acknowledgement:
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            for item in read_acknowledgements(str(self.run)).get(identifier, ()):
                return item
            time.sleep(0.01)
        raise AssertionError(f"nobody answered {identifier}")


@pytest.fixture
def case(tmp_path: Path) -> Iterator[TrackerLoggingCase]:
    new_case = TrackerLoggingCase(tmp_path)
    yield new_case
    for item in new_case.trackers:
        if isinstance(item, FakeTracker) and item.gate is not None:
            item.gate.set()
    new_case.tracking.close()
    assert new_case.failures == []


def test_requests_are_handled_in_our_thread_without_steps(case: TrackerLoggingCase) -> None:
    tracker = FakeTracker()
    case.trackers.append(tracker)
    case.tracking.begin()
    case.ask("1", value=math.nan)
    answer = case.answer("1")
    assert (answer.worker, answer.step, str(answer.answer)) == ("rank0-1", 41, "logged to wandb run abc")
    case.ask("2", value=0, step=None)
    case.answer("2")
    (name, value, step), second = tracker.records
    assert (name, value != value, step) == ("leadline/stall", True, 7)
    assert second == ("leadline/stall", 0.0, 41)
    assert tracker.threads == {"leadline-tracking"}


def test_there_is_no_thread_before_the_first_request(case: TrackerLoggingCase) -> None:
    def ours() -> list[str]:
        return [item.name for item in threading.enumerate() if item.name == "leadline-tracking"]

    assert ours() == []
    case.tracking.wake(case.ask("1"))
    assert ours() == ["leadline-tracking"]
    assert str(case.answer("1").answer) == "refused: the script has no live wandb, MLflow or TensorBoard run"
    case.tracking.close()
    assert ours() == []


def test_a_failing_tracker_does_not_affect_the_others(case: TrackerLoggingCase) -> None:
    broken = FakeTracker("mlflow", "MLflow run 1", ConnectionError("no route to\nhttps://me:secret@host/api"))
    case.trackers += [broken, FakeTracker("tensorboard", "TensorBoard /logs"), FakeTracker()]
    case.tracking.begin()
    case.ask("1")
    assert str(case.answer("1").answer) == (
        "logged to TensorBoard /logs and wandb run abc; not to MLflow run 1: ConnectionError"
    )
    case.ask("2", to="mlflow")
    assert str(case.answer("2").answer) == "failed: MLflow run 1: ConnectionError"
    case.trackers.remove(broken)
    case.ask("3", to="mlflow")
    assert str(case.answer("3").answer) == "refused: the script has no live MLflow run"


def test_a_hanging_tracker_costs_only_a_short_wait_at_the_end(case: TrackerLoggingCase) -> None:
    tracker = FakeTracker(gate=threading.Event())
    case.trackers.append(tracker)
    case.tracking.begin()
    case.ask("1")
    while not tracker.threads:
        time.sleep(0.01)
    case.ask("2")
    case.tracking.close()
    for identifier in ("1", "2"):
        assert str(case.answer(identifier).answer) == "refused: the script ended while its tracker did not respond"
    assert tracker.records == []


def test_a_request_just_before_the_end_is_handled(case: TrackerLoggingCase) -> None:
    tracker = FakeTracker()
    case.trackers.append(tracker)
    case.tracking.begin()
    for item in range(20):
        case.ask(f"{item:02}", step=item)
    case.tracking.close()
    assert [step for _, _, step in tracker.records] == list(range(20))


def test_a_later_worker_skips_acknowledged_requests(case: TrackerLoggingCase) -> None:
    tracker = FakeTracker()
    case.trackers.append(tracker)
    case.ask("1", step=1)
    acknowledge(str(case.run), "1", "rank0-0", 3, Answer("done", "logged to wandb run abc"))
    case.ask("2", step=2)
    write_request(str(case.run), Stop("3"))
    case.tracking.begin()
    assert str(case.answer("2").answer) == "logged to wandb run abc"
    case.tracking.close()
    assert [step for _, _, step in tracker.records] == [2]
