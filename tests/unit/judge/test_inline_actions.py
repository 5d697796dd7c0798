"""Actions that make control requests: performed at once, final once the request is acknowledged."""

from __future__ import annotations

import errno
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from recording_actions import Reports, closing, finding

from leadline.actions.action import (
    Action,
    ActionContext,
    Outcome,
    Place,
    RejectedError,
    RetryLaterError,
    TrainingProgress,
)
from leadline.errors import ConfigurationError
from leadline.judge import action_worker
from leadline.judge.action_queue import ActionQueue
from leadline.judge.action_transports import InlineAction
from leadline.judge.delivery import JobContext
from leadline.judge.judge import JudgeTerminated
from leadline.records.documents import LoggedAction
from leadline.records.manifest import ActionSpec
from leadline.records.request import Answer
from leadline.store import layout
from leadline.store.control import acknowledge
from leadline.store.documents import make_folder

WORKERS = tuple(TrainingProgress(name, 7, 0, 0.1, 7) for name in ("rank0-1", "rank1-2"))


class Asks(Action, frozen=True, kw_only=True):
    """Makes a request; the exceptions in ``errors`` are raised before."""

    place: ClassVar[Place] = "worker"
    errors: ClassVar[list[Exception]] = []

    def run(self, context: ActionContext) -> Outcome:
        if self.errors:
            raise self.errors.pop(0)
        return Outcome(f"asked by {context.notification.id}", 9, f"request-{context.notification.step}", "asking")


class HasNothingToDo(Asks, frozen=True, kw_only=True):
    def run(self, context: ActionContext) -> Outcome:
        return Outcome("nothing to do", is_nothing=True)


class AsksAgent(Asks, frozen=True, kw_only=True):
    place: ClassVar[Place] = "agent"


class InlineRig:
    """A queue, and the places that accept its requests."""

    action: ClassVar[Action]
    """The action of the last rig, as the registry of the worker has it."""

    def __init__(self, run: Path, action: Action) -> None:
        InlineRig.action = action
        self.run, self.reports = str(run), Reports()
        self.accepting = {"worker", "agent"}
        self.workers = WORKERS
        self.now = time.monotonic()
        setup = {"run": self.run, "action": "stop_training", "parameters": {}, "folder": ""}
        context = JobContext(lambda: self.workers, lambda place: place in self.accepting, lambda *announcement: None)
        self.queue = ActionQueue(
            ActionSpec("*", "asks"),
            self.run,
            InlineAction(setup),
            self.reports,
            context,
            place=action.place,
            is_volatile=action.is_volatile,
        )

    def answer(self, step: int, worker: str, outcome: str = "taken") -> None:
        acknowledge(self.run, f"request-{step}", worker, 12, Answer.parse(outcome))

    def advance(self) -> None:
        """Advance the queue as the judge does, ten seconds after the last time."""
        self.now += 10.0
        self.queue.advance(self.now)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make_folder(str(tmp_path / layout.CONTROL))
    return tmp_path


@pytest.fixture(autouse=True)
def _actions(monkeypatch: pytest.MonkeyPatch) -> None:
    Asks.errors.clear()
    monkeypatch.setattr(action_worker, "make_action", lambda *_: InlineRig.action)


def test_an_exit_of_the_judge_is_no_failure_of_the_action(run: Path) -> None:
    rig = InlineRig(run, Asks())
    Asks.errors.append(JudgeTerminated(143))  # type: ignore[arg-type]
    with pytest.raises(JudgeTerminated):
        rig.queue.add(finding(7))


def test_a_delivery_that_is_tried_again_does_not_delay_the_next_one(run: Path) -> None:
    Asks.errors.append(RetryLaterError("busy", 60.0))
    rig = InlineRig(run, Asks())
    assert rig.queue.add(finding(7)) is None
    assert rig.queue.add(finding(8)) == "asking"
    assert rig.queue.pending == 1


def test_an_action_that_cannot_be_constructed_fails_every_notification(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Action:
        raise ConfigurationError("no such thing")

    monkeypatch.setattr(action_worker, "make_action", refuse)
    rig = InlineRig(run, Asks())
    for step in (7, 8):
        rig.queue.add(finding(step))
    assert [report[1:] for report in rig.reports.all] == [("failed", "failed: no such thing")] * 2


def test_an_action_with_nothing_to_do_is_skipped(run: Path) -> None:
    rig = InlineRig(run, HasNothingToDo())
    assert rig.queue.add(finding(7)) is None
    assert rig.reports.all == [("e/opened/7", "skipped", "nothing to do")]


def test_a_request_is_made_at_once_and_done_when_all_running_workers_have_answered(run: Path) -> None:
    rig = InlineRig(run, Asks())
    assert rig.queue.add(finding(7)) == "asking"
    assert rig.reports.all == [("e/opened/7", "asked", "asked by e/opened/7")]
    rig.answer(7, "rank0-1")
    rig.advance()
    assert len(rig.reports.all) == 1
    rig.answer(7, "rank1-2")
    rig.advance()
    assert rig.reports.all[1:] == [("e/opened/7", "done", "asked by e/opened/7: applied at step 12")]
    assert rig.queue.pending == 0


def test_workers_that_are_gone_are_not_awaited(run: Path) -> None:
    rig = InlineRig(run, Asks())
    rig.queue.add(finding(7))
    rig.answer(7, "rank0-1")
    rig.workers = WORKERS[:1]
    rig.advance()
    assert rig.reports.results[-1] == ("e/opened/7", "done")


def test_one_answer_of_the_agent_is_enough(run: Path) -> None:
    rig = InlineRig(run, AsksAgent())
    rig.queue.add(finding(7))
    assert rig.queue.pending == 1
    rig.answer(7, "agent-node", "exit status 0")
    rig.advance()
    assert rig.reports.all[1:] == [("e/opened/7", "done", "exit status 0")]


def test_a_refusal_is_final_and_a_failure_is_retried(run: Path) -> None:
    rig = InlineRig(run, AsksAgent(retries=1, backoff=0.1, cooldown=60.0))
    rig.queue.add(finding(7))
    rig.answer(7, "agent-node", "refused: unknown")
    rig.advance()
    assert rig.reports.all[-1] == ("e/opened/7", "failed", "failed: unknown")
    rig.queue.add(finding(8, "other"))
    rig.answer(8, "agent-node", "failed: exit status 1")
    for _ in range(3):
        rig.advance()
    assert rig.reports.all[-1] == ("other/opened/8", "failed", "failed after 2 attempts: exit status 1")
    asked = [
        outcome
        for notification, result, outcome in rig.reports.all
        if (notification, result) == ("other/opened/8", "asked")
    ]
    assert asked == [
        "asked by other/opened/8",
        "in progress; the first attempt failed: exit status 1",
        "asked by other/opened/8",
    ]


@pytest.mark.parametrize(
    ("errors", "last"),
    [
        ([OSError(errno.ENOSPC, "")], ("done", "")),
        ([RetryLaterError("busy", 0.2)], ("done", "")),
        ([OSError(errno.ENOSPC, "")] * 3, ("failed", "failed after 3 attempts: no space left on device")),
        ([RejectedError("no")], ("failed", "failed: no")),
    ],
)
def test_an_exception_is_retried_unless_it_is_a_rejection(run: Path, errors: list[Any], last: tuple[str, str]) -> None:
    Asks.errors.extend(errors)
    rig = InlineRig(run, Asks(retries=2, backoff=0.1))
    assert rig.queue.add(finding(7)) is None
    for _ in range(3):
        rig.advance()
    _, result, outcome = rig.reports.all[-1]
    assert (result, outcome) == (("asked", "asked by e/opened/7") if last[0] == "done" else last)


def test_no_request_is_made_to_a_place_that_accepts_none(run: Path) -> None:
    rig = InlineRig(run, Asks())
    rig.accepting = {"agent"}
    assert rig.queue.add(finding(7)) is None
    assert rig.reports.all == [("e/opened/7", "skipped", "too late: the training had ended")]


def test_a_refusal_after_the_end_of_the_training_is_not_a_failure(run: Path) -> None:
    rig = InlineRig(run, Asks())
    rig.queue.add(finding(7))
    rig.answer(7, "agent-node", "refused: the training had ended")
    rig.accepting = set()
    rig.advance()
    assert rig.reports.all[1:] == [("e/opened/7", "skipped", "too late: the training had ended")]


def test_a_dry_run_makes_no_request(run: Path) -> None:
    Asks.errors.append(AssertionError("it was run"))
    rig = InlineRig(run, Asks(dry_run=True))
    rig.queue.add(finding(7))
    assert rig.reports.all == [("e/opened/7", "dry run", "dry run: would run Asks")]


def test_within_the_cool_down_no_request_is_made(run: Path) -> None:
    rig = InlineRig(run, Asks(cooldown=60.0))
    for notification in (finding(7), finding(8), closing(8)):
        rig.queue.add(notification)
    assert [result for _, result in rig.reports.results] == ["asked", "skipped", "skipped"]


def test_a_request_that_was_not_taken_before_the_end_is_not_a_failure(run: Path) -> None:
    rig = InlineRig(run, Asks())
    rig.queue.add(finding(7))
    rig.queue.give_up("the run had ended")
    assert len(rig.reports.all) == 1
    rig.accepting = set()
    rig.queue.give_up("the run had ended")
    outcome = "asked by e/opened/7: the run ended before it was taken"
    assert rig.reports.all[1:] == [("e/opened/7", "skipped", outcome)]


def test_an_answer_that_arrives_at_the_very_end_counts(run: Path) -> None:
    rig = InlineRig(run, Asks())
    rig.queue.add(finding(7))
    rig.answer(7, "rank0-1")
    rig.accepting = set()
    rig.queue.give_up("the run had ended")
    assert rig.reports.results[1:] == [("e/opened/7", "done")]


def test_a_restarted_judge_awaits_the_answer_and_makes_no_second_request(run: Path) -> None:
    Asks.errors.append(AssertionError("it was asked again"))
    rig = InlineRig(run, Asks(episodes="once"))
    known = LoggedAction(state="asked", outcome="asked to stop", step=9, request="request-7")
    rig.queue.add(finding(7), known)
    rig.queue.add(finding(5), replace(known, state="done"))
    for worker in ("rank0-1", "rank1-2"):
        rig.answer(7, worker)
    rig.advance()
    assert rig.reports.all == [("e/opened/7", "done", "asked to stop: applied at step 12")]
    rig.queue.add(finding(8))
    assert rig.reports.results[-1] == ("e/opened/8", "skipped")
