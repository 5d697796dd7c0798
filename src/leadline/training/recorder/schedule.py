"""Schedules of capture items for one optimizer, mode or kind of scalar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.budget import Budget
from leadline.training.timeline.step_clock import StepClock

_EVERY_STEP = Schedule(every=1)


class CaptureSchedule:
    """Selects the items to capture at each step.

    An item is captured when a step of its schedule has passed since the last call: an optimizer that steps only
    every fifth step of the clock is captured at its first step after the scheduled one. Seconds are counted from
    the last capture of the item, for whatever reason.

    Args:
        budget: Throttles the items (which must be those of ``budget.items``); None for no throttling.
    """

    def __init__(self, items: Sequence[CaptureItem], budget: Budget | None = None) -> None:
        self._items = tuple(items)
        self._budget = budget
        self._version = 0
        self._timed = frozenset(id(item) for item in items if item.schedule.every_seconds is not None)
        self._captured_at = dict.fromkeys(self._timed, float("-inf"))
        self._last_step = -1
        self._next_steps = [_next_step(item.schedule, -1) for item in items]
        """For each item the first scheduled step after the last step that was asked for."""
        self._next_step = 0

    def advance_to(self, step: int) -> tuple[CaptureItem, ...]:
        """Advance to ``step``, which must not decrease; return the items to capture there."""
        budget = self._budget
        if budget is not None and budget.version != self._version:
            self._version, self._next_step = budget.version, 0
            self._next_steps = [_next_step(budget.schedule(item), self._last_step) for item in self._items]
        if step < self._next_step and not self._timed:
            return ()
        next_steps, selected = self._next_steps, []
        for index, item in enumerate(self._items):
            should_capture = next_steps[index] <= step
            if self._timed and id(item) in self._timed:
                should_capture = self._should_capture_timed(item, step, is_scheduled=should_capture)
            if next_steps[index] <= step:
                next_steps[index] = _next_step(self._schedule(item), step)
            if should_capture:
                selected.append(item)
        self._last_step, self._next_step = step, min(next_steps, default=step + (1 << 30))
        return tuple(selected)

    def is_idle(self, step: int) -> bool:
        """Return whether no item can be scheduled at ``step``, without advancing to it."""
        is_known = self._budget is None or self._budget.version == self._version
        return is_known and step < self._next_step and not self._timed

    def every_step(self) -> list[CaptureItem]:
        """Return the items that are currently captured at every step."""
        return [item for item in self._items if self._schedule(item) == _EVERY_STEP]

    def recurring(self, step: int) -> list[CaptureItem]:
        """Return the items with an interval that may be captured again after ``step``."""
        return [
            item
            for item in self._items
            if (item.schedule.every is not None or item.schedule.every_seconds is not None)
            and item.schedule.start <= step
            and (item.schedule.end is None or step < item.schedule.end)
        ]

    def _schedule(self, item: CaptureItem) -> Schedule:
        return item.schedule if self._budget is None else self._budget.schedule(item)

    def _should_capture_timed(self, item: CaptureItem, step: int, *, is_scheduled: bool) -> bool:
        """Return whether an item with an interval in seconds is captured.

        Args:
            is_scheduled: Whether it is scheduled by its step numbers.
        """
        now = time.monotonic()
        elapsed = now - self._captured_at[id(item)]
        should_capture = is_scheduled or self._schedule(item).interval_elapsed(elapsed, step)
        if should_capture:
            self._captured_at[id(item)] = now
        return should_capture


class StepDecision:
    """Whether something is captured at the current train step; decided at the first call of each step.

    Args:
        schedule: Returns its current schedule.
    """

    __slots__ = ("_clock", "_schedule", "_should_capture", "_step")

    def __init__(self, clock: StepClock, schedule: Callable[[], CaptureSchedule]) -> None:
        self._clock, self._schedule = clock, schedule
        self._step = -1
        self._should_capture = False

    def __call__(self) -> bool:
        step = self._clock.mode_step("train")
        if step != self._step:
            self._step = step
            self._should_capture = bool(self._schedule().advance_to(step))
        return self._should_capture


def _next_step(schedule: Schedule, step: int) -> int:
    """Return the first scheduled step after ``step``, by step numbers."""
    candidates = [listed for listed in schedule.steps if listed > step]
    if schedule.every is not None:
        first = max(step + 1, schedule.start)
        following = -(-first // schedule.every) * schedule.every
        if schedule.end is None or following < schedule.end:
            candidates.append(following)
    return min(candidates, default=step + (1 << 30))
