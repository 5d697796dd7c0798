"""Schedules of capture items for one optimizer, mode or kind of scalar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.budget import Budget
from leadline.training.timeline.step_clock import StepClock

_EVERY_STEP: Final = Schedule(every=1)
_FAR: Final = 1 << 30
"""Steps until the next scheduled step where there is none."""


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
        self._always = self._items if self._is_every_step() else None
        """All items, if each is captured at every step."""

    def advance_to(self, step: int) -> tuple[CaptureItem, ...]:
        """Advance to ``step``, which must not decrease; return the items to capture there."""
        budget = self._budget
        if budget is not None and budget.version != self._version:
            self._version, self._next_step = budget.version, 0
            self._next_steps = [_next_step(budget.schedule(item), self._last_step) for item in self._items]
            self._always = self._items if self._is_every_step() else None
        if self._always is not None:
            is_first_call = step > self._last_step
            self._last_step = step
            return self._always if is_first_call else ()
        if step < self._next_step and not self._timed:
            return ()
        next_steps, timed, selected = self._next_steps, self._timed, []
        for index, item in enumerate(self._items):
            should_capture = next_steps[index] <= step
            if should_capture:
                next_steps[index] = _next_step(self._schedule(item), step)
            if timed and id(item) in timed:
                should_capture = self._should_capture_timed(item, step, is_scheduled=should_capture)
            if should_capture:
                selected.append(item)
        self._last_step, self._next_step = step, min(next_steps, default=step + _FAR)
        return tuple(selected)

    def recurring(self, step: int) -> list[CaptureItem]:
        """Return the items with an interval that may be captured again after ``step``."""
        return [
            item
            for item in self._items
            if (item.schedule.every is not None or item.schedule.every_seconds is not None)
            and item.schedule.start <= step
            and (item.schedule.end is None or step < item.schedule.end)
        ]

    def _is_every_step(self) -> bool:
        return bool(self._items) and all(self._schedule(item) == _EVERY_STEP for item in self._items)

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
    following = step + _FAR
    every = schedule.every
    if every is not None:
        first = step + 1 if step >= schedule.start else schedule.start
        multiple = -(-first // every) * every
        if schedule.end is None or multiple < schedule.end:
            following = multiple
    if schedule.steps:
        following = min((listed for listed in schedule.steps if step < listed < following), default=following)
    return following
