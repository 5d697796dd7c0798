"""Actions that ask the training or its agent for something: done in the judge, and final once that has answered."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError, TrainingProgress
from leadline.errors import LeadlineError
from leadline.judge.delivery import Delivery, RateLimit, Report
from leadline.judge.retry_policy import RetryPolicy
from leadline.records.manifest import ActionSpec
from leadline.records.notification import Notification
from leadline.records.request import ENDED, FAILED, REFUSED, Acknowledgement
from leadline.store import layout
from leadline.store.actions import FINAL, Line, settled
from leadline.store.documents import read_document

if TYPE_CHECKING:
    from leadline.judge.snapshots import Segments

_TOO_LATE: Final = f"too late: {ENDED}"
_HEAR_SECONDS: Final = 0.05
"""Between two looks for answers."""


class InlineQueue:
    """One action that makes control requests, and what waits for it.

    Args:
        workers: Tells who still runs.
        can_be_heard: Tells whether somebody is still there who takes requests of that place up.
    """

    def __init__(
        self,
        spec: ActionSpec,
        action: Action,
        run: str,
        report: Report,
        workers: Callable[[], tuple[TrainingProgress, ...]],
        can_be_heard: Callable[[str], bool],
    ) -> None:
        self.spec = spec
        self.descriptor = None
        self._action, self._manners, self._run = action, RetryPolicy.of(action), run
        self._report, self._workers, self._can_be_heard = report, workers, can_be_heard
        self._waiting: list[Delivery] = []
        self._asked: dict[str, tuple[Delivery, Outcome]] = {}
        self._restraint = RateLimit()
        self._heard_at = 0.0
        self._segments: Segments | None = None

    @property
    def pending(self) -> int:
        """How many notices wait: for another try, or for an answer that can still come when all is judged."""
        is_answered = self._action.place == "agent" and self._can_be_heard("agent")
        return len(self._waiting) + (len(self._asked) if is_answered else 0)

    def add(self, notice: Notification, known: Line | None = None) -> str | None:
        """One more notice; what the terminal shall say of it.

        Args:
            known: What a judge before this one wrote of it last.
        """
        delivery = Delivery(notice)
        if known is None or (known["state"] not in FINAL and not known.get("request")):
            self._waiting.append(delivery)
            return self._try(delivery, time.monotonic())
        self._restraint.has_done(notice)
        if known["state"] not in FINAL:
            self._asked[known["request"]] = (delivery, Outcome(known["outcome"], known["step"], known["request"]))
        return None

    def turn(self, now: float) -> None:
        """Ask again where that is due, and see who has answered."""
        for delivery in [each for each in self._waiting if now >= each.not_before]:
            self._try(delivery, now)
        if self._asked and now - self._heard_at >= _HEAR_SECONDS:
            self._heard_at = now
            self._hear_answers(now)

    def hear(self) -> None:
        """Nobody speaks to it: answers are files."""

    def give_up(self, why: str) -> None:
        """Nothing more is tried; what somebody may yet take up stays asked."""
        self._hear_answers(time.monotonic())
        for delivery in self._waiting:
            tail = f" (the last of {delivery.attempts} tries: {delivery.why})" if delivery.why else ""
            self._report(delivery, "given up", Outcome(f"given up: {why}{tail}"))
        self._waiting.clear()
        if self._asked and not self._can_be_heard(self._action.place):
            for delivery, asked in self._asked.values():
                told = f"{asked.outcome}: the run ended before anybody took it up"
                self._report(delivery, "skipped", Outcome(told, asked.step, asked.request))
            self._asked.clear()

    def close(self) -> None:
        """Nothing is held."""

    def _try(self, delivery: Delivery, now: float) -> str | None:
        why_not = "" if delivery.attempts else self._restraint.why_not(delivery.notice, self._manners)
        if why_not or not self._can_be_heard(self._action.place):
            self._waiting.remove(delivery)
            self._restraint.has_withheld(delivery.notice)
            why = f"skipped: {why_not}" if why_not else _TOO_LATE
            self._report(delivery, "skipped", Outcome(why))
            return None
        delivery.attempts += 1
        occasion = ActionContext(
            self._run, self._with_snapshots(delivery.notice), self._workers(), time.time_ns(), self.spec.rule
        )
        outcome = self._run_action(delivery, occasion, now)
        return outcome.announcement if outcome is not None else None

    def _with_snapshots(self, notice: Notification) -> Notification:
        """The notice with what the run holds of its tensors by now, where the action hands it on to others."""
        is_handed_on = self._action.place == "agent" and self._action.wants_snapshot and not self._action.dry_run
        if notice.kind != "finding" or not notice.tensors or not is_handed_on:
            return notice
        from leadline.judge.snapshots import Segments, snapshots

        self._segments = self._segments or Segments()
        try:
            return replace(notice, tensors=snapshots(self._run, notice, self._segments, wait_seconds=0.0))
        except (LeadlineError, OSError):  # a run that cannot be read is no reason to tell nobody
            return notice

    def _run_action(self, delivery: Delivery, occasion: ActionContext, now: float) -> Outcome | None:
        """The boundary "action runner": an action that fails is written down, and judging goes on."""
        try:
            if self._action.dry_run:
                outcome = Outcome(f"dry run: {self._action.describe(occasion)}")
            else:
                outcome = self._action.run(occasion)
        except (RejectedError, LeadlineError) as error:
            self._fail(delivery, now, f"{error}", is_final=True)
            return None
        except RetryLaterError as error:
            self._fail(delivery, now, f"{error}", error.after_seconds)
            return None
        except Exception as error:  # noqa: BLE001
            self._fail(delivery, now, f"{type(error).__name__}: {error}")
            return None
        self._waiting.remove(delivery)
        if outcome.is_nothing:
            self._restraint.has_withheld(delivery.notice)
            self._report(delivery, "skipped", outcome)
            return outcome
        self._restraint.has_done(delivery.notice)
        if self._action.dry_run or outcome.request is None:
            self._report(delivery, "dry run" if self._action.dry_run else "done", outcome)
        else:
            self._asked[outcome.request] = (delivery, outcome)
            self._report(delivery, "asked", outcome)
        return outcome

    def _fail(
        self, delivery: Delivery, now: float, why: str, after_seconds: float | None = None, is_final: bool = False
    ) -> None:
        if delivery.fail(self._manners, now, why, after_seconds) and not is_final:
            if delivery.attempts == 1:
                self._report(delivery, "asked", Outcome(f"under way; the first try failed: {why}"))
            return
        if delivery in self._waiting:
            self._waiting.remove(delivery)
        self._report(delivery, "failed", Outcome(delivery.failure))

    def _hear_answers(self, now: float) -> None:
        answers = self._read_answers()
        running = {each.worker for each in self._workers()} if self._can_be_heard("worker") else set()
        for request, (delivery, asked) in list(self._asked.items()):
            said = answers.get(request, [])
            if said and self._is_whole(said, running):
                del self._asked[request]
                self._settle(delivery, asked, said, now)

    def _is_whole(self, said: list[Acknowledgement], running: Collection[str]) -> bool:
        """Whether all have answered who will; the agent is one."""
        return self._action.place == "agent" or not set(running) - {each.worker for each in said}

    def _settle(self, delivery: Delivery, asked: Outcome, said: list[Acknowledgement], now: float) -> None:
        state, outcome = settled(asked.outcome, said)
        if state == "done":
            self._report(delivery, "done", Outcome(outcome, asked.step, asked.request))
            return
        if outcome == f"{REFUSED}{ENDED}":
            self._report(delivery, "skipped", Outcome(_TOO_LATE, asked.step, asked.request))
            return
        self._waiting.append(delivery)
        self._fail(
            delivery, now, outcome.removeprefix(FAILED).removeprefix(REFUSED), is_final=outcome.startswith(REFUSED)
        )

    def _read_answers(self) -> dict[str, list[Acknowledgement]]:
        """The answers to what was asked for, by request; read when something came."""
        folder = os.path.join(self._run, layout.ACKS)
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        found: dict[str, list[Acknowledgement]] = {}
        for name in sorted(names):
            request = name.partition(".")[0]
            if request in self._asked and name.endswith(".json"):
                document = read_document(os.path.join(folder, name))
                if isinstance(document, dict):
                    found.setdefault(request, []).append(Acknowledgement(**document))
        return found
