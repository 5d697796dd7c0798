"""Deliveries: one notice on its way to one action, the manners in which that is done, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from leadline.actions.action import Outcome
from leadline.judge.retry_policy import RetryPolicy
from leadline.records.manifest import ActionSpec
from leadline.records.notification import Notification
from leadline.store.actions import Line

MOST_WAIT_SECONDS: Final = 60.0

Result = Literal["asked", "done", "failed", "given up", "dry run", "skipped"]


@dataclass(slots=True)
class Delivery:
    """One notice for one action."""

    notice: Notification
    attempts: int = 0
    why: str = ""
    """How the last try failed."""
    not_before: float = 0.0
    """When the next try may be made, on the monotonic clock."""
    was_done: bool = False
    """Whether a judge before this one did it."""

    def fail(self, manners: RetryPolicy, now: float, why: str, after_seconds: float | None = None) -> bool:
        """Take in that a try failed; whether another follows."""
        wait = min(MOST_WAIT_SECONDS, manners.backoff * 2.0 ** min(self.attempts - 1, 30))
        self.not_before = now + max(wait, min(MOST_WAIT_SECONDS, after_seconds or 0.0))
        self.why = why
        return self.attempts <= manners.retries

    @property
    def failure(self) -> str:
        """That it failed for good, in words."""
        tries = "" if self.attempts <= 1 else f" after {self.attempts} tries"
        return f"failed{tries}: {self.why}"


Report = Callable[[Delivery, Result, Outcome], None]
"""Told of every result."""


class RateLimit:
    """What of the notices of a rule is told: once or every time, and not again within the cool-down.

    Only findings are held back, and the closings of those that were.
    """

    def __init__(self) -> None:
        self._done: dict[str | None, int] = {}
        self._withheld: set[str] = set()

    def has_done(self, notice: Notification) -> None:
        """A finding was told."""
        if notice.kind == "finding":
            self._done[notice.rule] = notice.time_ns

    def has_withheld(self, notice: Notification) -> None:
        """A finding was not told; nor will its closing be."""
        self._withheld.add(notice.id.replace("/opened/", "/closed/"))

    def why_not(self, notice: Notification, manners: RetryPolicy) -> str:
        """Why a notice is not told; "": it is."""
        if notice.kind == "closed" and notice.id in self._withheld:
            return "its opening was not told"
        if notice.kind != "finding" or notice.rule not in self._done:
            return ""
        if manners.is_once:
            return "only the first of a rule is told"
        passed = (notice.time_ns - self._done[notice.rule]) / 1e9
        return f"within its cool-down of {manners.cooldown:g} s" if 0 <= passed < manners.cooldown else ""


class DeliveryQueue(Protocol):
    """What is still to be delivered to one action.

    Promises: nothing blocks; what comes of each notice is reported, its last result is final; whatever an action
    does, the lane stays fit for the next.
    """

    spec: ActionSpec

    @property
    def pending(self) -> int: ...

    @property
    def descriptor(self) -> int | None: ...

    def add(self, notice: Notification, known: Line | None = None) -> str | None: ...

    def turn(self, now: float) -> None: ...

    def hear(self) -> None: ...

    def give_up(self, why: str) -> None: ...

    def close(self) -> None: ...
