"""Actions that ask the training or its agent: asked at once, final once that has answered."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from following import Reports, closing, finding

from leadline.actions.action import (
    Action,
    ActionContext,
    Outcome,
    Place,
    RejectedError,
    RetryLaterError,
    TrainingProgress,
)
from leadline.judge.inline_actions import InlineQueue
from leadline.records.manifest import ActionSpec
from leadline.records.request import Acknowledgement
from leadline.store import layout
from leadline.store.actions import Line
from leadline.store.control import write_acknowledgement
from leadline.store.documents import make_folder

WORKERS = tuple(TrainingProgress(name, 7, 0, 0.1) for name in ("rank0-1", "rank1-2"))


class Asks(Action, frozen=True, kw_only=True):
    """Asks for something; what ``errors`` holds is raised before."""

    place: ClassVar[Place] = "worker"
    errors: ClassVar[list[Exception]] = []

    def run(self, occasion: ActionContext) -> Outcome:
        if self.errors:
            raise self.errors.pop(0)
        return Outcome(f"asked by {occasion.notice.id}", 9, f"request-{occasion.notice.step}", "asking")


class AsksAgent(Asks, frozen=True, kw_only=True):
    place: ClassVar[Place] = "agent"


class Office:
    """A lane, with who can hear it."""

    def __init__(self, run: Path, action: Action) -> None:
        self.run, self.reports = str(run), Reports()
        self.heard = {"worker", "agent"}
        self.workers = WORKERS
        self.now = time.monotonic()
        spec = ActionSpec("*", "asks")
        self.lane = InlineQueue(
            spec, action, self.run, self.reports, lambda: self.workers, lambda place: place in self.heard
        )

    def answer(self, step: int, worker: str, outcome: str = "taken") -> None:
        write_acknowledgement(self.run, Acknowledgement(f"request-{step}", worker, 12, 0, outcome))

    def turn(self) -> None:
        """A turn of the judge, some seconds after the last."""
        self.now += 10.0
        self.lane.turn(self.now)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make_folder(str(tmp_path / layout.CONTROL))
    return tmp_path


@pytest.fixture(autouse=True)
def _no_errors() -> None:
    Asks.errors.clear()


def test_it_asks_at_once_and_is_done_when_all_who_run_have_answered(run: Path) -> None:
    office = Office(run, Asks())
    assert office.lane.add(finding(7)) == "asking"
    assert office.reports.all == [("e/opened/7", "asked", "asked by e/opened/7")]
    office.answer(7, "rank0-1")
    office.turn()
    assert len(office.reports.all) == 1
    office.answer(7, "rank1-2")
    office.turn()
    assert office.reports.all[1:] == [("e/opened/7", "done", "asked by e/opened/7: taken up at step 12")]
    assert office.lane.pending == 0


def test_who_is_gone_is_not_awaited(run: Path) -> None:
    office = Office(run, Asks())
    office.lane.add(finding(7))
    office.answer(7, "rank0-1")
    office.workers = WORKERS[:1]
    office.turn()
    assert office.reports.results[-1] == ("e/opened/7", "done")


def test_one_answer_of_the_agent_is_enough(run: Path) -> None:
    office = Office(run, AsksAgent())
    office.lane.add(finding(7))
    assert office.lane.pending == 1
    office.answer(7, "agent-node", "exit status 0")
    office.turn()
    assert office.reports.all[1:] == [("e/opened/7", "done", "exit status 0")]


def test_what_was_refused_is_final_and_what_failed_is_asked_again(run: Path) -> None:
    office = Office(run, AsksAgent(retries=1, backoff=0.1, cooldown=60.0))
    office.lane.add(finding(7))
    office.answer(7, "agent-node", "refused: unknown")
    office.turn()
    assert office.reports.all[-1] == ("e/opened/7", "failed", "failed: unknown")
    office.lane.add(finding(8, "other"))
    office.answer(8, "agent-node", "failed: exit status 1")
    for _ in range(3):
        office.turn()
    assert office.reports.all[-1] == ("other/opened/8", "failed", "failed after 2 tries: exit status 1")
    asked = [said for notice, result, said in office.reports.all if (notice, result) == ("other/opened/8", "asked")]
    assert asked == [
        "asked by other/opened/8",
        "under way; the first try failed: exit status 1",
        "asked by other/opened/8",
    ]


@pytest.mark.parametrize(
    ("errors", "last"),
    [
        ([OSError("disk full")], ("done", "")),
        ([RetryLaterError("busy", 0.2)], ("done", "")),
        ([OSError("disk full")] * 3, ("failed", "failed after 3 tries: OSError: disk full")),
        ([RejectedError("no")], ("failed", "failed: no")),
    ],
)
def test_what_raises_is_tried_again_unless_it_is_refused(run: Path, errors: list[Any], last: tuple[str, str]) -> None:
    Asks.errors.extend(errors)
    office = Office(run, Asks(retries=2, backoff=0.1))
    assert office.lane.add(finding(7)) is None
    for _ in range(3):
        office.turn()
    _, result, outcome = office.reports.all[-1]
    assert (result, outcome) == (("asked", "asked by e/opened/7") if last[0] == "done" else last)


def test_nobody_is_asked_who_is_not_there(run: Path) -> None:
    office = Office(run, Asks())
    office.heard = {"agent"}
    assert office.lane.add(finding(7)) is None
    assert office.reports.all == [("e/opened/7", "skipped", "too late: the training had ended")]


def test_a_refusal_because_the_training_had_ended_is_no_failure(run: Path) -> None:
    office = Office(run, Asks())
    office.lane.add(finding(7))
    office.answer(7, "agent-node", "refused: the training had ended")
    office.heard = set()
    office.turn()
    assert office.reports.all[1:] == [("e/opened/7", "skipped", "too late: the training had ended")]


def test_a_dry_run_asks_nobody(run: Path) -> None:
    Asks.errors.append(AssertionError("it was run"))
    office = Office(run, Asks(dry_run=True))
    office.lane.add(finding(7))
    assert office.reports.all == [("e/opened/7", "dry run", "dry run: would run Asks")]


def test_within_a_cool_down_nobody_is_asked(run: Path) -> None:
    office = Office(run, Asks(cooldown=60.0))
    for notice in (finding(7), finding(8), closing(8)):
        office.lane.add(notice)
    assert [result for _, result in office.reports.results] == ["asked", "skipped", "skipped"]


def test_what_nobody_took_up_before_the_end_is_no_failure(run: Path) -> None:
    office = Office(run, Asks())
    office.lane.add(finding(7))
    office.lane.give_up("the run had ended")
    assert len(office.reports.all) == 1
    office.heard = set()
    office.lane.give_up("the run had ended")
    said = "asked by e/opened/7: the run ended before anybody took it up"
    assert office.reports.all[1:] == [("e/opened/7", "skipped", said)]


def test_an_answer_that_came_at_the_very_end_counts(run: Path) -> None:
    office = Office(run, Asks())
    office.lane.add(finding(7))
    office.answer(7, "rank0-1")
    office.heard = set()
    office.lane.give_up("the run had ended")
    assert office.reports.results[1:] == [("e/opened/7", "done")]


def test_a_judge_that_begins_again_awaits_the_answer_and_asks_nobody_twice(run: Path) -> None:
    Asks.errors.append(AssertionError("it was asked again"))
    office = Office(run, Asks(episodes="once"))
    known: Line = {"state": "asked", "outcome": "asked to stop", "step": 9, "request": "request-7"}
    office.lane.add(finding(7), known)
    office.lane.add(finding(5), {**known, "state": "done"})
    for worker in ("rank0-1", "rank1-2"):
        office.answer(7, worker)
    office.turn()
    assert office.reports.all == [("e/opened/7", "done", "asked to stop: taken up at step 12")]
    office.lane.add(finding(8))
    assert office.reports.results[-1] == ("e/opened/8", "skipped")
