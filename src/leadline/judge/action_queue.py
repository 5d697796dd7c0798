"""The queue of an action that runs in its own process, one notification at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from leadline.actions.action import Outcome, TrainingProgress
from leadline.judge.action_process import START_SECONDS, ActionProcess
from leadline.judge.delivery import Delivery, RateLimit, Report
from leadline.judge.retry_policy import RetryPolicy
from leadline.records.manifest import ActionSpec
from leadline.records.notification import Notification
from leadline.store.actions import FINAL_STATES, Line

_DEFAULT_POLICY: Final = RetryPolicy(dry_run=False, cooldown=0.0, is_once=False, retries=5, backoff=1.0, timeout=30.0)
"""The policy of an action whose worker ended before it reported its own."""


class ActionQueue:
    """One action, its worker process, and the pending deliveries.

    The process is started for the first notification, and again for the next attempt if it crashed, hung or was
    killed.
    """

    def __init__(
        self,
        spec: ActionSpec,
        setup: dict[str, Any],
        report: Report,
        workers: Callable[[], tuple[TrainingProgress, ...]],
        *,
        is_volatile: bool | None = None,
    ) -> None:
        """
        Args:
            is_volatile: Whether a new judge delivers everything again; None: the worker reports it.
        """
        self.spec = spec
        self._process = ActionProcess(setup)
        self._report, self._workers = report, workers
        self._waiting: deque[Delivery] = deque()
        self._rate_limit = RateLimit()
        self._policy: RetryPolicy | None = None
        self._is_volatile = is_volatile
        self._setup_error = ""

    @property
    def pending(self) -> int:
        """The number of pending deliveries."""
        return len(self._waiting)

    @property
    def descriptor(self) -> int | None:
        """The descriptor that becomes readable when the worker answers."""
        return self._process.descriptor

    def add(self, notification: Notification, known: Line | None = None) -> str | None:
        """Add a notification.

        Args:
            known: The last line that an earlier judge logged for it.
        """
        was_done = known is not None and (known["state"] in FINAL_STATES or bool(known.get("request")))
        self._waiting.append(Delivery(notification, was_done=was_done))
        return None

    def advance(self, now: float) -> None:
        """Start the process, send it the next notification, and kill it if it takes too long."""
        process = self._process
        process.flush()
        if process.has_timed_out(now):
            limit = process.timeout if process.state == "busy" else START_SECONDS
            self._handle_failure(f"gave no answer for {limit:g} s")
        while self._waiting and now >= self._waiting[0].not_before and process.state in ("off", "idle"):
            if self._waiting[0].was_done and self._is_volatile is False:
                self._rate_limit.record_delivered(self._waiting.popleft().notification)
            elif self._setup_error:
                self._report_setup_error()
            elif process.state == "off":
                self._start(now)
            else:
                self._ask(self._waiting[0])

    def receive(self) -> None:
        """Process the answers of the worker."""
        for answer in self._process.receive():
            self._take(answer)
        if self._process.has_ended:
            self._handle_failure(self._process.describe_exit())

    def give_up(self, why: str) -> None:
        """Try nothing any more."""
        while self._waiting:
            delivery = self._waiting.popleft()
            tail = f" (last of {delivery.attempts} attempts: {delivery.why})" if delivery.why else ""
            if not delivery.was_done:
                self._report(delivery, "given up", Outcome(f"given up: {why}{tail}"))
        if self._process.state != "idle":
            self._process.end()

    def close(self) -> None:
        """Shut the worker down: no more notifications follow."""
        self._process.retire()

    def _start(self, now: float) -> None:
        try:
            self._process.start()
        except OSError as error:
            self._waiting[0].attempts += 1
            self._fail(now, f"cannot start its process: {error.strerror}")

    def _ask(self, delivery: Delivery) -> None:
        policy = self._policy or _DEFAULT_POLICY
        if delivery.was_done and not self._is_volatile:
            self._waiting.popleft()
            self._rate_limit.record_delivered(delivery.notification)
            return
        reason_to_skip = self._rate_limit.reason_to_skip(delivery.notification, policy)
        if reason_to_skip:
            self._waiting.popleft()
            self._rate_limit.record_skipped(delivery.notification)
            self._report(delivery, "skipped", Outcome(f"skipped: {reason_to_skip}"))
            return
        delivery.attempts += 1
        workers = [asdict(worker) for worker in self._workers()]
        self._process.ask({"notice": delivery.notification.to_dict(), "workers": workers, "now_ns": time.time_ns()})

    def _take(self, answer: dict[str, Any]) -> None:
        if "policy" in answer:
            self._policy, self._is_volatile = RetryPolicy(**answer["policy"]), answer["is_volatile"]
            self._process.timeout = self._policy.timeout
        elif "error" in answer and self._policy is None:
            self._setup_error = answer["error"]
            self._process.end()
        elif "error" in answer and self._waiting:
            self._fail(time.monotonic(), answer["error"], answer.get("after_seconds"), answer.get("is_final", False))
        elif "outcome" in answer:
            self._done(answer)

    def _done(self, answer: dict[str, Any]) -> None:
        delivery = self._waiting.popleft()
        self._rate_limit.record_delivered(delivery.notification)
        outcome = Outcome(answer["outcome"], answer["step"], answer["request"], answer["announcement"])
        is_dry = (self._policy or _DEFAULT_POLICY).dry_run
        # a request of a custom action stays "asked" here: readers of actions.jsonl look for its answers
        self._report(delivery, "dry run" if is_dry else "asked" if outcome.request else "done", outcome)

    def _handle_failure(self, how: str) -> None:
        """Kill the process; an idle one is started again when it is needed."""
        state = self._process.state
        self._process.end()
        if state == "starting" and self._waiting:
            self._waiting[0].attempts += 1
        if state in ("starting", "preparing", "busy"):
            self._fail(time.monotonic(), how)

    def _fail(self, now: float, why: str, after_seconds: float | None = None, is_final: bool = False) -> None:
        delivery = self._waiting[0]
        if delivery.fail(self._policy or _DEFAULT_POLICY, now, why, after_seconds) and not is_final:
            if delivery.attempts == 1:
                self._report(delivery, "asked", Outcome(f"in progress; the first attempt failed: {why}"))
            return
        self._waiting.popleft()
        self._report(delivery, "failed", Outcome(delivery.failure))

    def _report_setup_error(self) -> None:
        delivery = self._waiting.popleft()
        if not delivery.was_done:
            self._report(delivery, "failed", Outcome(f"failed: {self._setup_error}"))
