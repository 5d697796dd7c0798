"""When each wish of a plan is due."""

from __future__ import annotations

import time
from collections.abc import Sequence

from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.budget import Budget

_EVERY_STEP = Schedule(every=1)


class CaptureSchedule:
    """Answers, for one subject of capture, which wishes are due at a step that has come.

    A wish is due when a step of its schedule has passed since the subject was last asked: an optimizer that
    steps only every fifth step of the clock is captured at its first step after the scheduled one. Seconds are
    counted from the last time that the wish was due, for whatever reason.

    Args:
        budget: Says how far each wish is thinned (its ``items`` are the wishes to be given here); None: not at all.
    """

    def __init__(self, items: Sequence[CaptureItem], budget: Budget | None = None) -> None:
        self._items = tuple(items)
        self._budget = budget
        self._version = 0
        self._timed = frozenset(id(item) for item in items if item.schedule.every_seconds is not None)
        self._taken_at = dict.fromkeys(self._timed, float("-inf"))
        self._last = -1
        self._nexts = [_next_due(item.schedule, -1) for item in items]
        """Of each wish the first step after the last that was asked for at which it is due by number."""
        self._next = 0

    def at(self, step: int) -> tuple[CaptureItem, ...]:
        """The wishes due at ``step``; the steps asked for only grow."""
        budget = self._budget
        if budget is not None and budget.version != self._version:
            self._version, self._next = budget.version, 0
            self._nexts = [_next_due(budget.schedule(item), self._last) for item in self._items]
        if step < self._next and not self._timed:
            return ()
        nexts, due = self._nexts, []
        for index, item in enumerate(self._items):
            is_due = nexts[index] <= step
            if self._timed and id(item) in self._timed:
                is_due = self._is_timed_due(item, step, is_due=is_due)
            if nexts[index] <= step:
                nexts[index] = _next_due(self._schedule(item), step)
            if is_due:
                due.append(item)
        self._last, self._next = step, min(nexts, default=step + (1 << 30))
        return tuple(due)

    def is_idle(self, step: int) -> bool:
        """Whether nothing can be due at ``step``; asked, it counts as not asked."""
        is_known = self._budget is None or self._budget.version == self._version
        return is_known and step < self._next and not self._timed

    def always(self) -> list[CaptureItem]:
        """The wishes that are due at every step, as things stand."""
        return [item for item in self._items if self._schedule(item) == _EVERY_STEP]

    def recurring(self, step: int) -> list[CaptureItem]:
        """The wishes that come again and again, and may do so after ``step``."""
        return [
            item
            for item in self._items
            if (item.schedule.every is not None or item.schedule.every_seconds is not None)
            and item.schedule.start <= step
            and (item.schedule.end is None or step < item.schedule.end)
        ]

    def _schedule(self, item: CaptureItem) -> Schedule:
        return item.schedule if self._budget is None else self._budget.schedule(item)

    def _is_timed_due(self, item: CaptureItem, step: int, *, is_due: bool) -> bool:
        """Whether a wish with an interval of seconds is due.

        Args:
            is_due: Whether it is by number.
        """
        now = time.monotonic()
        is_due = is_due or self._schedule(item).is_due_by_time(now - self._taken_at[id(item)], step)
        if is_due:
            self._taken_at[id(item)] = now
        return is_due


def _next_due(schedule: Schedule, step: int) -> int:
    """The first step after ``step`` at which a wish of that schedule is due by number."""
    found = [listed for listed in schedule.steps if listed > step]
    if schedule.every is not None:
        first = max(step + 1, schedule.start)
        following = -(-first // schedule.every) * schedule.every
        if schedule.end is None or following < schedule.end:
            found.append(following)
    return min(found, default=step + (1 << 30))
