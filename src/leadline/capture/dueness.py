"""When each wish of a plan is due."""

from __future__ import annotations

import time
from collections.abc import Sequence

from leadline.records.plan import CaptureItem


class Due:
    """Answers, for one subject of capture, which wishes are due at a step that has come.

    A wish is due when a step of its schedule has passed since the subject was last asked: an optimizer that
    steps only every fifth step of the clock is captured at its first step after the scheduled one.
    """

    def __init__(self, items: Sequence[CaptureItem]) -> None:
        self._items = tuple(items)
        self._timed = [item for item in items if item.schedule.every_seconds is not None]
        self._taken_at = {id(item): float("-inf") for item in self._timed}
        self._last = -1
        self._next = 0

    def at(self, step: int) -> tuple[CaptureItem, ...]:
        """The wishes due at ``step``; the steps asked for only grow."""
        if step < self._next and not self._timed:
            return ()
        due = tuple(item for item in self._items if self._is_due(item, step))
        self._last = step
        self._next = min((_next_due(item, step) for item in self._items), default=step + (1 << 30))
        return due

    def _is_due(self, item: CaptureItem, step: int) -> bool:
        if item.schedule.is_due_since(self._last, step):
            return True
        if id(item) not in self._taken_at:
            return False
        now = time.monotonic()
        if not item.schedule.is_due_by_time(now - self._taken_at[id(item)], step):
            return False
        self._taken_at[id(item)] = now
        return True


def _next_due(item: CaptureItem, step: int) -> int:
    """The first step after ``step`` at which a wish is due by number."""
    schedule = item.schedule
    found = [listed for listed in schedule.steps if listed > step]
    if schedule.every is not None:
        first = max(step + 1, schedule.start)
        following = -(-first // schedule.every) * schedule.every
        if schedule.end is None or following < schedule.end:
            found.append(following)
    return min(found, default=step + (1 << 30))
