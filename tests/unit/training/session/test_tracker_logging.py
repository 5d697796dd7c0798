"""Rules' statuses go into the script's trackers in a thread of our own, whatever those trackers do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.frameworks.loggers.trackers import ScriptTracker
from leadline.records.request import Acknowledgement, Request
from leadline.store.control import read_acknowledgements, write_acknowledgement, write_request
from leadline.training.guard import Guard
from leadline.training.session.tracker_logging import TrackerLogging

PATIENCE = 60.0


@dataclass
class Book:
    """A tracker that writes down what it is told, and in which thread."""

    library: str = "wandb"
    title: str = "wandb run abc"
    error: Exception | None = None
    gate: threading.Event | None = None
    told: list[tuple[str, float, int]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def log(self, name: str, value: float, step: int) -> None:
        self.threads.add(threading.current_thread().name)
        if self.gate is not None:
            self.gate.wait()
        if self.error is not None:
            raise self.error
        self.told.append((name, value, step))


class Asked:
    """A run with a tracking, and what was answered."""

    def __init__(self, run: Path) -> None:
        (run / "control" / "acks").mkdir(parents=True)
        self.run, self.trackers, self.failures = run, list[ScriptTracker](), list[str]()
        self.tracking = TrackerLogging(
            str(run),
            trackers=self.find,
            worker=lambda: "rank0-1",
            step=lambda: 41,
            guarded=Guard(self.failures.append).wrap,
        )

    def find(self) -> Sequence[ScriptTracker]:
        return self.trackers

    def ask(self, identifier: str, **parameters: Any) -> Request:
        plain = {"rule": "stall", "value": 1.0, "step": 7, "to": "every"}
        request = Request(identifier, "track", parameters=plain | parameters)
        write_request(str(self.run), request)
        return request

    def answer(self, identifier: str) -> Acknowledgement:
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            for each in read_acknowledgements(str(self.run)):
                if each.id == identifier:
                    return each
            time.sleep(0.01)
        raise AssertionError(f"nobody answered {identifier}")


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    found = Asked(tmp_path)
    yield found
    for each in found.trackers:
        if isinstance(each, Book) and each.gate is not None:
            each.gate.set()
    found.tracking.close()
    assert found.failures == []


def test_what_is_asked_is_logged_in_a_thread_of_ours_though_no_step_ends(asked: Asked) -> None:
    book = Book()
    asked.trackers.append(book)
    asked.tracking.begin()
    asked.ask("1", value="NaN")
    answer = asked.answer("1")
    assert (answer.worker, answer.step, answer.outcome) == ("rank0-1", 41, "logged to wandb run abc")
    asked.ask("2", value=0, step=None)
    asked.answer("2")
    (name, value, step), second = book.told
    assert (name, value != value, step) == ("leadline/stall", True, 7)
    assert second == ("leadline/stall", 0.0, 41)
    assert book.threads == {"leadline-tracking"}


def test_no_thread_before_somebody_asks(asked: Asked) -> None:
    def ours() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "leadline-tracking"]

    assert ours() == []
    asked.tracking.wake(asked.ask("1"))
    assert ours() == ["leadline-tracking"]
    assert asked.answer("1").outcome == "refused: the script has no live wandb, MLflow or TensorBoard run"
    asked.tracking.close()
    assert ours() == []


def test_one_that_fails_does_not_keep_the_others_from_it(asked: Asked) -> None:
    broken = Book("mlflow", "MLflow run 1", ConnectionError("no route to\nhttps://me:secret@host/api"))
    asked.trackers += [broken, Book("tensorboard", "TensorBoard /logs"), Book()]
    asked.tracking.begin()
    asked.ask("1")
    assert asked.answer("1").outcome == (
        "logged to TensorBoard /logs and wandb run abc; "
        "not to MLflow run 1: ConnectionError: no route to https://host/api"
    )
    asked.ask("2", to="mlflow")
    assert asked.answer("2").outcome == "failed: MLflow run 1: ConnectionError: no route to https://host/api"
    asked.trackers.remove(broken)
    asked.ask("3", to="mlflow")
    assert asked.answer("3").outcome == "refused: the script has no live MLflow run"


def test_one_that_hangs_costs_no_more_than_a_short_wait_at_the_end(asked: Asked) -> None:
    book = Book(gate=threading.Event())
    asked.trackers.append(book)
    asked.tracking.begin()
    asked.ask("1")
    while not book.threads:
        time.sleep(0.01)
    asked.ask("2")
    asked.tracking.close()
    for identifier in ("1", "2"):
        assert asked.answer(identifier).outcome == "refused: the script ended while its tracker did not answer"
    assert book.told == []


def test_what_is_asked_just_before_the_end_is_done(asked: Asked) -> None:
    book = Book()
    asked.trackers.append(book)
    asked.tracking.begin()
    for each in range(20):
        asked.ask(f"{each:02}", step=each)
    asked.tracking.close()
    assert [step for _, _, step in book.told] == list(range(20))


def test_one_that_comes_later_leaves_what_others_have_answered(asked: Asked) -> None:
    book = Book()
    asked.trackers.append(book)
    asked.ask("1", step=1)
    write_acknowledgement(str(asked.run), Acknowledgement("1", "rank0-0", 3, 0, "logged to wandb run abc"))
    asked.ask("2", step=2)
    write_request(str(asked.run), Request("3", "stop"))
    asked.tracking.begin()
    assert asked.answer("2").outcome == "logged to wandb run abc"
    asked.tracking.close()
    assert [step for _, _, step in book.told] == [2]
