"""The queue of an action: its pending deliveries, and the control requests that are not acknowledged yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from leadline.actions.action import Outcome, Place
from leadline.judge.action_transports import ActionTransport
from leadline.judge.delivery import Delivery, JobContext, RateLimit, Report, RetryPolicy
from leadline.judge.worker_messages import ActionAnswer
from leadline.records.documents import LoggedAction
from leadline.records.manifest import ActionSpec
from leadline.records.notification import Notification
from leadline.records.request import TRAINING_ENDED, Acknowledgement, Answer
from leadline.store.control import joint_answer, read_acknowledgements, result_of

_DEFAULT_POLICY: Final = RetryPolicy(dry_run=False, cooldown=0.0, is_once=False, retries=5, backoff=1.0, timeout=30.0)
"""The policy of an action whose worker ended before it reported its own."""
_TOO_LATE: Final = f"too late: {TRAINING_ENDED}"
_CHECK_SECONDS: Final = 0.05
"""The interval at which acknowledgements are read."""


class ActionQueue:
    """The pending deliveries of one action.

    An action that talks to others has a worker process and gets one notification at a time, in order. An action that
    makes control requests is performed at once inside the judge; it is done when the request is acknowledged.

    **Never blocks** - every method returns at once.

    **Every result is reported** - the last result of a notification is final.

    Args:
        run: The run directory.
        transport: The way to the action's worker, which is started for the first notification, and again for the
            next attempt if it crashed, hung or was killed.
        report: Called with every result.
        place: Where the action takes effect.
        is_volatile: Whether a new judge delivers everything again; None: the worker reports it.
    """

    def __init__(
        self,
        spec: ActionSpec,
        run: str,
        transport: ActionTransport,
        report: Report,
        context: JobContext,
        *,
        place: Place = "judge",
        is_volatile: bool | None = None,
    ) -> None:
        self.spec = spec
        self.is_inline = place != "judge"
        """Whether it is performed inside the judge."""
        self._run = run
        self._transport = transport
        self._report = report
        self._context = context
        self._place, self._is_volatile = place, is_volatile
        self._waiting: list[Delivery] = []
        self._requested: dict[str, tuple[Delivery, Outcome]] = {}
        """The deliveries whose requests are not acknowledged yet."""
        self._current: Delivery | None = None
        self._rate_limit = RateLimit()
        self._policy: RetryPolicy | None = None
        self._setup_error = ""
        self._checked_at = 0.0

    @property
    def pending(self) -> int:
        """The number of deliveries that wait for an attempt, or for an answer that may arrive after the end."""
        is_answered = self._place == "agent" and self._context.accepts_requests("agent")
        return len(self._waiting) + (len(self._requested) if is_answered else 0)

    @property
    def descriptor(self) -> int | None:
        """The descriptor that becomes readable when the worker answers."""
        return self._transport.descriptor

    def add(self, notification: Notification, known: LoggedAction | None = None) -> str | None:
        """Add a notification.

        Args:
            known: The last line that an earlier judge logged for it.
        Returns:
            What is to be announced in the terminal behind a finding; None: nothing, or nothing yet.
        """
        delivery = Delivery(notification, known=known)
        self._waiting.append(delivery)
        if self.is_inline:
            self.advance(time.monotonic())
        return delivery.announcement

    def advance(self, now: float) -> None:
        """Start the worker, send it the next notification, and kill it if it takes too long."""
        self._check_worker(now)
        while self._transport.state in ("off", "idle") and (delivery := self._next(now)) is not None:
            self._attempt(delivery)
            if self._transport.descriptor is None:
                self.receive()
        if self._requested and now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._check_requests()

    def receive(self) -> None:
        """Process the answers of the worker."""
        for answer in self._transport.receive():
            self._take(answer)
        self._check_worker(time.monotonic())

    def give_up(self, why: str) -> None:
        """Make no further attempts; requests that may still be taken stay ``asked``."""
        self._check_requests()
        for delivery in self._waiting:
            tail = f" (last of {delivery.attempts} attempts: {delivery.why})" if delivery.why else ""
            if not delivery.was_done:
                self._report(delivery, "given up", Outcome(f"given up: {why}{tail}"))
        self._waiting.clear()
        if self._requested and not self._context.accepts_requests(self._place):
            for delivery, outcome in self._requested.values():
                text = f"{outcome.outcome}: the run ended before it was taken"
                self._report(delivery, "skipped", Outcome(text, outcome.step, outcome.request))
            self._requested.clear()
        if self._transport.state != "idle":
            self._transport.end()
            self._current = None

    def close(self) -> None:
        """Shut the worker down: no more notifications follow."""
        self._transport.retire()

    def _next(self, now: float) -> Delivery | None:
        """Return the next delivery; one that is tried again delays the others only where their order matters."""
        candidates = self._waiting if self.is_inline else self._waiting[:1]
        return next((delivery for delivery in candidates if now >= delivery.not_before), None)

    def _attempt(self, delivery: Delivery) -> None:
        if delivery.was_done and self._is_volatile is False:
            self._skip_done(delivery)
        elif self._setup_error:
            self._waiting.remove(delivery)
            if not delivery.was_done:
                self._report(delivery, "failed", Outcome(f"failed: {self._setup_error}"))
        elif self._transport.state == "off":
            self._start(delivery)
        elif delivery.was_done and not self._is_volatile:
            self._skip_done(delivery)
        elif why := self._reason_to_skip(delivery):
            self._finish_unsent(delivery, Outcome(why))
        else:
            self._ask(delivery)

    def _start(self, delivery: Delivery) -> None:
        try:
            self._transport.start()
        except OSError as error:
            delivery.attempts += 1
            self._fail(delivery, f"cannot start its process: {error.strerror}")

    def _ask(self, delivery: Delivery) -> None:
        delivery.attempts += 1
        self._current = delivery
        workers = [asdict(worker) for worker in self._context.workers()]
        self._transport.ask({"notice": delivery.notification.to_dict(), "workers": workers, "now_ns": time.time_ns()})

    def _skip_done(self, delivery: Delivery) -> None:
        """Skip what an earlier judge has done; a request that it made is awaited."""
        self._waiting.remove(delivery)
        self._rate_limit.record_delivered(delivery.notification)
        known = delivery.known
        if self.is_inline and known is not None and known.request and not known.is_final:
            self._requested[known.request] = (delivery, Outcome(known.outcome, known.step, known.request))

    def _reason_to_skip(self, delivery: Delivery) -> str:
        policy = self._policy or _DEFAULT_POLICY
        if not delivery.attempts and (why := self._rate_limit.reason_to_skip(delivery.notification, policy)):
            return f"skipped: {why}"
        return _TOO_LATE if self.is_inline and not self._context.accepts_requests(self._place) else ""

    def _finish_unsent(self, delivery: Delivery, outcome: Outcome) -> None:
        self._waiting.remove(delivery)
        self._rate_limit.record_skipped(delivery.notification)
        self._report(delivery, "skipped", outcome)

    def _take(self, answer: ActionAnswer) -> None:
        if "policy" in answer:
            self._policy, self._is_volatile = RetryPolicy(**answer["policy"]), answer["is_volatile"]
            self._transport.timeout = self._policy.timeout
        elif "error" in answer and self._policy is None:
            self._setup_error = answer["error"]
            self._transport.end()
        elif (delivery := self._current) is None or answer.get("begun"):
            return
        elif "error" in answer:
            self._current = None
            is_final = answer.get("is_final", False)
            self._fail(delivery, answer["error"], answer.get("after_seconds"), is_final=is_final)
        elif "outcome" in answer:
            self._current = None
            self._complete(delivery, _outcome_of(answer))

    def _complete(self, delivery: Delivery, outcome: Outcome) -> None:
        delivery.announcement = outcome.announcement
        if outcome.is_nothing:
            self._finish_unsent(delivery, outcome)
            return
        self._waiting.remove(delivery)
        self._rate_limit.record_delivered(delivery.notification)
        is_dry = (self._policy or _DEFAULT_POLICY).dry_run
        if outcome.request and self.is_inline and not is_dry:
            self._requested[outcome.request] = (delivery, outcome)
        # a request of a custom action stays "asked": readers of actions.jsonl look for its acknowledgements
        self._report(delivery, "dry run" if is_dry else "asked" if outcome.request else "done", outcome)

    def _check_worker(self, now: float) -> None:
        """Kill a worker that has ended or takes too long; it is started again when it is needed."""
        if not (how := self._transport.failure(now)):
            return
        state, delivery = self._transport.state, self._current
        self._transport.end()
        self._current = None
        if state == "starting" and self._waiting:
            delivery = self._waiting[0]
            delivery.attempts += 1
        if delivery is not None:
            self._fail(delivery, how)

    def _fail(
        self, delivery: Delivery, why: str, after_seconds: float | None = None, *, is_final: bool = False
    ) -> None:
        policy = self._policy or _DEFAULT_POLICY
        if delivery.fail(policy, time.monotonic(), why, after_seconds) and not is_final:
            if delivery.attempts == 1:
                self._report(delivery, "asked", Outcome(f"in progress; the first attempt failed: {why}"))
            return
        self._waiting.remove(delivery)
        self._report(delivery, "failed", Outcome(delivery.failure))

    def _check_requests(self) -> None:
        answers = read_acknowledgements(self._run, self._requested) if self._requested else {}
        accepts = self._context.accepts_requests("worker") if self._requested else False
        running = {worker.worker for worker in self._context.workers()} if accepts else set()
        for request, (delivery, outcome) in list(self._requested.items()):
            acknowledgements = answers.get(request, [])
            # every running worker answers; the agent answers alone
            missing = running - {answer.worker for answer in acknowledgements} if self._place == "worker" else set()
            if acknowledgements and not missing:
                del self._requested[request]
                self._complete_request(delivery, outcome, acknowledgements)

    def _complete_request(self, delivery: Delivery, outcome: Outcome, answers: Sequence[Acknowledgement]) -> None:
        answer = joint_answer(answers)
        if answer.is_accepted:
            self._report(delivery, "done", Outcome(result_of(outcome.outcome, answers), outcome.step, outcome.request))
        elif answer == Answer("refused", TRAINING_ENDED):
            self._report(delivery, "skipped", Outcome(_TOO_LATE, outcome.step, outcome.request))
        else:
            self._waiting.append(delivery)
            self._fail(delivery, answer.reason, is_final=answer.state == "refused")


def _outcome_of(answer: ActionAnswer) -> Outcome:
    return Outcome(
        answer["outcome"], answer["step"], answer["request"], answer["announcement"], is_nothing=answer["is_nothing"]
    )
