"""Schedules of capture items for one optimizer, mode or kind of scalar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.capture_groups import CaptureGroup, divide

_EVERY_STEP: Final = Schedule(every=1)
_NEVER: Final = 1 << 62


class CaptureSchedule:
    """Selects the items to capture at each step.

    An item is captured when a step of its schedule has passed since the last call: an optimizer that steps only
    every fifth step of the clock is captured at its first step after the scheduled one. Seconds are counted from
    the last capture of the item, for whatever reason.

    Args:
        items: Items of ``capture_groups.split``.
        budget: Delays items; None: all are captured when scheduled.
        mode: The mode whose steps are counted.
        is_forward: Whether the items are captured in forward passes.

    Attributes:
        items: The items, whenever they are scheduled.
        next_step: At steps before this nothing is captured.
        captures_every_step: Whether something is captured at every step, whatever else is.
    """

    def __init__(
        self,
        items: Sequence[CaptureItem],
        budget: Budget | None = None,
        *,
        mode: str = "train",
        is_forward: bool = False,
    ) -> None:
        self.items, self._budget = tuple(items), budget
        self.next_step = 0 if self.items else _NEVER
        self._groups = divide(items, is_forward=is_forward)
        self._captured_at = {group: float("-inf") for group in self._groups if group.schedule.every_seconds is not None}
        """When the groups with an interval in seconds were captured."""
        is_free = budget is None or all(group.kind == "always" for group in self._groups)
        self.captures_every_step = is_free and any(item.schedule == _EVERY_STEP for item in items)
        self._is_every_step = self.captures_every_step and all(item.schedule == _EVERY_STEP for item in items)
        if budget is not None:
            budget.add(self._groups, mode)

    def skip_to(self, step: int) -> None:
        """Skip what is scheduled before ``step``: an earlier incarnation of the run has captured it."""
        for group in self._groups:
            group.skip_to(step)
        if self.items:
            self.next_step = step

    def advance_to(self, step: int) -> tuple[CaptureItem, ...]:
        """Advance to ``step``, which must not decrease; return the items to capture there."""
        if step < self.next_step:
            return ()
        if self._is_every_step:
            self.next_step = step + 1
            return self.items
        pending = [group for group in self._groups if self._is_pending(group, step)]
        if self._budget is not None:
            pending = self._budget.choose(pending, step) if pending else []
        else:
            for group in pending:
                group.take(step)
        if self._captured_at:
            now = time.monotonic()
            self._captured_at.update((group, now) for group in pending if group in self._captured_at)
        else:
            self.next_step = min((group.interesting_step for group in self._groups), default=_NEVER)
        chosen = {id(item) for group in pending for item in group.items}
        return tuple(item for item in self.items if id(item) in chosen) if chosen else ()

    def items_before(self, end: int) -> tuple[CaptureItem, ...]:
        """Return the items that may be captured at a step before ``end``."""
        groups = [group for group in self._groups if group in self._captured_at or group.interesting_step < end]
        return tuple(item for group in groups for item in group.items)

    def groups(self, items: Sequence[CaptureItem]) -> list[CaptureGroup]:
        """Return the groups of items that were captured."""
        captured = {id(item) for item in items}
        return [group for group in self._groups if any(id(item) in captured for item in group.items)]

    def recurring(self, step: int) -> list[CaptureItem]:
        """Return the items with an interval that may be captured again after ``step``."""
        return [
            item
            for item in self.items
            if (item.schedule.every is not None or item.schedule.every_seconds is not None)
            and item.schedule.has_last_round
            and item.schedule.start <= step
            and (item.schedule.end is None or step < item.schedule.end)
        ]

    def _is_pending(self, group: CaptureGroup, step: int) -> bool:
        captured_at = self._captured_at.get(group)
        is_timed_out = captured_at is not None and group.schedule.interval_elapsed(time.monotonic() - captured_at, step)
        return group.is_pending(step, is_timed_out=is_timed_out)


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
        return self.at(self._clock.train_step)

    def renew(self) -> None:
        """Follow another schedule, which must not ask again for what was decided at the current step."""
        if self._step == self._clock.train_step:
            self._should_capture = bool(self._schedule().advance_to(self._step)) or self._should_capture

    def at(self, step: int) -> bool:
        """Return whether it is captured at a train step: the current one, or the one before."""
        if step != self._step:
            self._step, schedule = step, self._schedule()
            self._should_capture = schedule.captures_every_step or bool(schedule.advance_to(step))
        return self._should_capture
