"""The delivery of a notification to an action: its attempts, its rate limit, and the interface of delivery queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from leadline.actions.action import Outcome
from leadline.judge.retry_policy import RetryPolicy
from leadline.records.manifest import ActionSpec
from leadline.records.notification import Notification
from leadline.store.actions import Line

MAX_WAIT_SECONDS: Final = 60.0

Result = Literal["asked", "done", "failed", "given up", "dry run", "skipped"]


@dataclass(slots=True)
class Delivery:
    """One notification for one action."""

    notification: Notification
    attempts: int = 0
    why: str = ""
    """Why the last attempt failed."""
    not_before: float = 0.0
    """When the next attempt may start, on the monotonic clock."""
    was_done: bool = False
    """Whether an earlier judge delivered it."""

    def fail(self, policy: RetryPolicy, now: float, why: str, after_seconds: float | None = None) -> bool:
        """Record a failed attempt, and return whether another one follows."""
        wait = min(MAX_WAIT_SECONDS, policy.backoff * 2.0 ** min(self.attempts - 1, 30))
        self.not_before = now + max(wait, min(MAX_WAIT_SECONDS, after_seconds or 0.0))
        self.why = why
        return self.attempts <= policy.retries

    @property
    def failure(self) -> str:
        """The final failure, for the action log."""
        attempts = "" if self.attempts <= 1 else f" after {self.attempts} attempts"
        return f"failed{attempts}: {self.why}"


Report = Callable[[Delivery, Result, Outcome], None]
"""Called with every result of a delivery."""


class RateLimit:
    """Suppresses findings of a rule: all but the first, or those within the cool-down.

    Other notifications are never suppressed, except that a finding was closed whose opening was.
    """

    def __init__(self) -> None:
        self._done: dict[str | None, int] = {}
        self._skipped: set[str] = set()

    def record_delivered(self, notification: Notification) -> None:
        """Record that a finding was delivered."""
        if notification.kind == "finding":
            self._done[notification.rule] = notification.time_ns

    def record_skipped(self, notification: Notification) -> None:
        """Record that a finding was suppressed; so will be its closing."""
        self._skipped.add(notification.id.replace("/opened/", "/closed/"))

    def reason_to_skip(self, notification: Notification, policy: RetryPolicy) -> str:
        """Return why a notification is suppressed; empty: it is not."""
        if notification.kind == "closed" and notification.id in self._skipped:
            return "its opening was not delivered"
        if notification.kind != "finding" or notification.rule not in self._done:
            return ""
        if policy.is_once:
            return "only the first finding of a rule is delivered"
        elapsed = (notification.time_ns - self._done[notification.rule]) / 1e9
        return f"within the cool-down of {policy.cooldown:g} s" if 0 <= elapsed < policy.cooldown else ""


class DeliveryQueue(Protocol):
    """The pending deliveries of one action.

    Implementations promise:

    **Never blocks** - every method returns at once.

    **Every result is reported** - the last result of a notification is final.

    **Isolated** - whatever an action does, the queue can deliver the next notification.
    """

    spec: ActionSpec

    @property
    def pending(self) -> int: ...

    @property
    def descriptor(self) -> int | None: ...

    def add(self, notification: Notification, known: Line | None = None) -> str | None: ...

    def advance(self, now: float) -> None: ...

    def receive(self) -> None: ...

    def give_up(self, why: str) -> None: ...

    def close(self) -> None: ...
