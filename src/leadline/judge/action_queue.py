"""Actions that are done by couriers: each in a process of its own, one notice after the other."""

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
from leadline.store.actions import FINAL, Line

_UNTOLD: Final = RetryPolicy(dry_run=False, cooldown=0.0, is_once=False, retries=5, backoff=1.0, timeout=30.0)
"""Of an action whose courier fell before it told its manners."""


class ActionQueue:
    """One action, its courier, and what waits for it.

    The courier is started with the first notice, and again for the next try when it fell, hung or was killed.
    """

    def __init__(
        self,
        spec: ActionSpec,
        order: dict[str, Any],
        report: Report,
        workers: Callable[[], tuple[TrainingProgress, ...]],
        *,
        is_volatile: bool | None = None,
    ) -> None:
        """
        Args:
            is_volatile: Whether a judge that begins again tells it all again; None: the courier says so.
        """
        self.spec = spec
        self._courier = ActionProcess(order)
        self._report, self._workers = report, workers
        self._waiting: deque[Delivery] = deque()
        self._restraint = RateLimit()
        self._manners: RetryPolicy | None = None
        self._is_volatile = is_volatile
        self._broken = ""

    @property
    def pending(self) -> int:
        """How many notices wait."""
        return len(self._waiting)

    @property
    def descriptor(self) -> int | None:
        """What becomes readable when the courier answers."""
        return self._courier.descriptor

    def add(self, notice: Notification, known: Line | None = None) -> str | None:
        """One more notice.

        Args:
            known: What a judge before this one wrote of it last.
        """
        was_done = known is not None and (known["state"] in FINAL or bool(known.get("request")))
        self._waiting.append(Delivery(notice, was_done=was_done))
        return None

    def turn(self, now: float) -> None:
        """Do what is due: start the courier, hand it the next notice, end it where it takes too long."""
        courier = self._courier
        courier.flush()
        if courier.is_late(now):
            limit = courier.timeout if courier.state == "busy" else START_SECONDS
            self._fall(f"gave no answer for {limit:g} s")
        while self._waiting and now >= self._waiting[0].not_before and courier.state in ("off", "idle"):
            if self._waiting[0].was_done and self._is_volatile is False:
                self._restraint.has_done(self._waiting.popleft().notice)
            elif self._broken:
                self._finish_broken()
            elif courier.state == "off":
                self._start(now)
            else:
                self._ask(self._waiting[0])

    def hear(self) -> None:
        """Take in what the courier says."""
        for answer in self._courier.receive():
            self._take(answer)
        if self._courier.has_ended:
            self._fall(self._courier.how_it_ended())

    def give_up(self, why: str) -> None:
        """Nothing more is tried."""
        while self._waiting:
            delivery = self._waiting.popleft()
            tail = f" (the last of {delivery.attempts} tries: {delivery.why})" if delivery.why else ""
            if not delivery.was_done:
                self._report(delivery, "given up", Outcome(f"given up: {why}{tail}"))
        if self._courier.state != "idle":
            self._courier.end()

    def close(self) -> None:
        """No notice comes any more: the courier lets go of what it holds."""
        self._courier.retire()

    def _start(self, now: float) -> None:
        try:
            self._courier.start()
        except OSError as error:
            self._waiting[0].attempts += 1
            self._fail(now, f"its process cannot be started: {error.strerror}")

    def _ask(self, delivery: Delivery) -> None:
        manners = self._manners or _UNTOLD
        if delivery.was_done and not self._is_volatile:
            self._waiting.popleft()
            self._restraint.has_done(delivery.notice)
            return
        why_not = self._restraint.why_not(delivery.notice, manners)
        if why_not:
            self._waiting.popleft()
            self._restraint.has_withheld(delivery.notice)
            self._report(delivery, "skipped", Outcome(f"skipped: {why_not}"))
            return
        delivery.attempts += 1
        workers = [asdict(each) for each in self._workers()]
        self._courier.ask({"notice": delivery.notice.to_dict(), "workers": workers, "now_ns": time.time_ns()})

    def _take(self, answer: dict[str, Any]) -> None:
        if "manners" in answer:
            self._manners, self._is_volatile = RetryPolicy(**answer["manners"]), answer["is_volatile"]
            self._courier.timeout = self._manners.timeout
        elif "error" in answer and self._manners is None:
            self._broken = answer["error"]
            self._courier.end()
        elif "error" in answer and self._waiting:
            self._fail(time.monotonic(), answer["error"], answer.get("after_seconds"), answer.get("is_final", False))
        elif "outcome" in answer:
            self._done(answer)

    def _done(self, answer: dict[str, Any]) -> None:
        delivery = self._waiting.popleft()
        self._restraint.has_done(delivery.notice)
        outcome = Outcome(answer["outcome"], answer["step"], answer["request"], answer["announcement"])
        is_dry = (self._manners or _UNTOLD).dry_run
        # a request of a stranger's action stays asked here: who reads actions.jsonl looks for its answers
        self._report(delivery, "dry run" if is_dry else "asked" if outcome.request else "done", outcome)

    def _fall(self, how: str) -> None:
        """The courier is ended, or has ended by itself; one that was idle is started again when it is needed."""
        state = self._courier.state
        self._courier.end()
        if state == "starting" and self._waiting:
            self._waiting[0].attempts += 1
        if state in ("starting", "preparing", "busy"):
            self._fail(time.monotonic(), how)

    def _fail(self, now: float, why: str, after_seconds: float | None = None, is_final: bool = False) -> None:
        delivery = self._waiting[0]
        if delivery.fail(self._manners or _UNTOLD, now, why, after_seconds) and not is_final:
            if delivery.attempts == 1:
                self._report(delivery, "asked", Outcome(f"under way; the first try failed: {why}"))
            return
        self._waiting.popleft()
        self._report(delivery, "failed", Outcome(delivery.failure))

    def _finish_broken(self) -> None:
        delivery = self._waiting.popleft()
        if not delivery.was_done:
            self._report(delivery, "failed", Outcome(f"failed: {self._broken}"))
