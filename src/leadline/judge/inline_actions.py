"""The queue of an action that makes control requests: performed inside the judge, and final once it is acknowledged."""

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
from leadline.records.request import FAILED, REFUSED, TRAINING_ENDED, Acknowledgement
from leadline.store import layout
from leadline.store.actions import FINAL_STATES, Line, request_outcome
from leadline.store.documents import read_document

if TYPE_CHECKING:
    from leadline.judge.snapshots import Segments

_TOO_LATE: Final = f"too late: {TRAINING_ENDED}"
_CHECK_SECONDS: Final = 0.05
"""The interval at which answers are read."""


class InlineQueue:
    """One action that makes control requests, and its pending deliveries.

    Args:
        workers: Returns the workers that are running.
        accepts_requests: Returns whether requests to a place (``worker``, ``agent``) are still accepted.
    """

    def __init__(
        self,
        spec: ActionSpec,
        action: Action,
        run: str,
        report: Report,
        workers: Callable[[], tuple[TrainingProgress, ...]],
        accepts_requests: Callable[[str], bool],
    ) -> None:
        self.spec = spec
        self.descriptor = None
        self._action, self._policy, self._run = action, RetryPolicy.of(action), run
        self._report, self._workers, self._accepts_requests = report, workers, accepts_requests
        self._waiting: list[Delivery] = []
        self._pending: dict[str, tuple[Delivery, Outcome]] = {}
        self._rate_limit = RateLimit()
        self._checked_at = 0.0
        self._segments: Segments | None = None

    @property
    def pending(self) -> int:
        """The number of deliveries that wait for another attempt, or for an answer that may arrive after the end."""
        is_answered = self._action.place == "agent" and self._accepts_requests("agent")
        return len(self._waiting) + (len(self._pending) if is_answered else 0)

    def add(self, notification: Notification, known: Line | None = None) -> str | None:
        """Add a notification and make the first attempt.

        Args:
            known: The last line that an earlier judge logged for it.
        Returns:
            What is to be announced in the terminal behind a finding.
        """
        delivery = Delivery(notification)
        if known is None or (known["state"] not in FINAL_STATES and not known.get("request")):
            self._waiting.append(delivery)
            return self._try(delivery, time.monotonic())
        self._rate_limit.record_delivered(notification)
        if known["state"] not in FINAL_STATES:
            self._pending[known["request"]] = (delivery, Outcome(known["outcome"], known["step"], known["request"]))
        return None

    def advance(self, now: float) -> None:
        """Make the attempts that are ready, and check for answers."""
        for delivery in [delivery for delivery in self._waiting if now >= delivery.not_before]:
            self._try(delivery, now)
        if self._pending and now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._check_answers(now)

    def receive(self) -> None:
        """Do nothing: the answers are files."""

    def give_up(self, why: str) -> None:
        """Try nothing any more; requests that may still be taken stay ``asked``."""
        self._check_answers(time.monotonic())
        for delivery in self._waiting:
            tail = f" (last of {delivery.attempts} attempts: {delivery.why})" if delivery.why else ""
            self._report(delivery, "given up", Outcome(f"given up: {why}{tail}"))
        self._waiting.clear()
        if self._pending and not self._accepts_requests(self._action.place):
            for delivery, asked in self._pending.values():
                text = f"{asked.outcome}: the run ended before it was taken"
                self._report(delivery, "skipped", Outcome(text, asked.step, asked.request))
            self._pending.clear()

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _try(self, delivery: Delivery, now: float) -> str | None:
        reason_to_skip = (
            "" if delivery.attempts else self._rate_limit.reason_to_skip(delivery.notification, self._policy)
        )
        if reason_to_skip or not self._accepts_requests(self._action.place):
            self._waiting.remove(delivery)
            self._rate_limit.record_skipped(delivery.notification)
            why = f"skipped: {reason_to_skip}" if reason_to_skip else _TOO_LATE
            self._report(delivery, "skipped", Outcome(why))
            return None
        delivery.attempts += 1
        context = ActionContext(
            self._run, self._with_snapshots(delivery.notification), self._workers(), time.time_ns(), self.spec.rule
        )
        outcome = self._run_action(delivery, context, now)
        return outcome.announcement if outcome is not None else None

    def _with_snapshots(self, notification: Notification) -> Notification:
        """Add snapshots of the tensors to a notification that the agent passes on to other programs."""
        is_handed_on = self._action.place == "agent" and self._action.wants_snapshot and not self._action.dry_run
        if notification.kind != "finding" or not notification.tensors or not is_handed_on:
            return notification
        from leadline.judge.snapshots import Segments, snapshots

        self._segments = self._segments or Segments()
        try:
            return replace(notification, tensors=snapshots(self._run, notification, self._segments, wait_seconds=0.0))
        except (LeadlineError, OSError):  # a run that cannot be read must not prevent the notification
            return notification

    def _run_action(self, delivery: Delivery, context: ActionContext, now: float) -> Outcome | None:
        """The boundary "action runner": record the failure of an action, and continue with the evaluation."""
        try:
            if self._action.dry_run:
                outcome = Outcome(f"dry run: {self._action.describe(context)}")
            else:
                outcome = self._action.run(context)
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
            self._rate_limit.record_skipped(delivery.notification)
            self._report(delivery, "skipped", outcome)
            return outcome
        self._rate_limit.record_delivered(delivery.notification)
        if self._action.dry_run or outcome.request is None:
            self._report(delivery, "dry run" if self._action.dry_run else "done", outcome)
        else:
            self._pending[outcome.request] = (delivery, outcome)
            self._report(delivery, "asked", outcome)
        return outcome

    def _fail(
        self, delivery: Delivery, now: float, why: str, after_seconds: float | None = None, is_final: bool = False
    ) -> None:
        if delivery.fail(self._policy, now, why, after_seconds) and not is_final:
            if delivery.attempts == 1:
                self._report(delivery, "asked", Outcome(f"in progress; the first attempt failed: {why}"))
            return
        if delivery in self._waiting:
            self._waiting.remove(delivery)
        self._report(delivery, "failed", Outcome(delivery.failure))

    def _check_answers(self, now: float) -> None:
        answers = self._read_answers()
        running = {worker.worker for worker in self._workers()} if self._accepts_requests("worker") else set()
        for request, (delivery, asked) in list(self._pending.items()):
            acknowledgements = answers.get(request, [])
            if acknowledgements and self._is_complete(acknowledgements, running):
                del self._pending[request]
                self._complete(delivery, asked, acknowledgements, now)

    def _is_complete(self, answers: list[Acknowledgement], running: Collection[str]) -> bool:
        """Return whether every running worker has answered; the agent answers alone."""
        return self._action.place == "agent" or not set(running) - {answer.worker for answer in answers}

    def _complete(self, delivery: Delivery, asked: Outcome, answers: list[Acknowledgement], now: float) -> None:
        state, outcome = request_outcome(asked.outcome, answers)
        if state == "done":
            self._report(delivery, "done", Outcome(outcome, asked.step, asked.request))
            return
        if outcome == f"{REFUSED}{TRAINING_ENDED}":
            self._report(delivery, "skipped", Outcome(_TOO_LATE, asked.step, asked.request))
            return
        self._waiting.append(delivery)
        self._fail(
            delivery, now, outcome.removeprefix(FAILED).removeprefix(REFUSED), is_final=outcome.startswith(REFUSED)
        )

    def _read_answers(self) -> dict[str, list[Acknowledgement]]:
        """Return the answers to the pending requests, by request."""
        folder = os.path.join(self._run, layout.ACKS)
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        answers: dict[str, list[Acknowledgement]] = {}
        for name in sorted(names):
            request = name.partition(".")[0]
            if request in self._pending and name.endswith(".json"):
                document = read_document(os.path.join(folder, name))
                if isinstance(document, dict):
                    answers.setdefault(request, []).append(Acknowledgement(**document))
        return answers
