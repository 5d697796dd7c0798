"""Schedules of the learning rate that end long before the training, or whose warm-up does not end within it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.records.formatting import counted
from leadline.records.names import CHECKS, REMAINING_STEPS, SCHEDULE_LENGTH, SCHEDULE_STEPS, WARM_UP_LENGTH
from leadline.rules import Advice, TensorNeed, Window

_CHECKS: Final = (SCHEDULE_LENGTH, WARM_UP_LENGTH, SCHEDULE_STEPS)
_EVERY: Final = 5
_MIN_STEPS: Final = 50
"""A shorter training may well be a look at its beginning."""
_LATEST: Final = 0.5
"""The share of the training before which a schedule must not end."""
NEED: Final = TensorNeed(
    CHECKS,
    regex=f"(/({'|'.join(_CHECKS)})|^{REMAINING_STEPS})$",
    statistics=("value",),
    modes=("train",),
    every=_EVERY,
    end=3 * _EVERY + 1,
    is_optional=True,
)
_TOO_SHORT: Final = Advice("a schedule as long as the training; usually {short_schedule}")
_TOO_LONG: Final = Advice(
    "a warm-up of a few percent of the training; usually its length was taken over from a longer training, or from one "
    "with smaller batches"
)


@dataclass(slots=True)
class PlannedSchedule:
    """The only scheduler of an optimizer, as far as its first steps show it."""

    first: tuple[int, int] | None = None
    """The train step of the first capture, and the steps of the scheduler up to then."""
    latest: tuple[int, int] = (0, 0)
    length: float | None = None
    warm_up: float | None = None

    def note(self, step: int, checks: dict[str, float]) -> None:
        """Note the checks of a train step."""
        self.length, self.warm_up = checks.get(SCHEDULE_LENGTH), checks.get(WARM_UP_LENGTH)
        self.latest = step, int(checks.get(SCHEDULE_STEPS, 0))
        if SCHEDULE_STEPS not in checks:
            self.first = None
        elif self.first is None:
            self.first = self.latest

    @property
    def per_update(self) -> int:
        """The steps of the scheduler for each train step so far; 0: that is no whole number, or too few were made."""
        if self.first is None or self.latest[0] - self.first[0] < _EVERY:
            return 0
        per_update, rest = divmod(self.latest[1] - self.first[1], self.latest[0] - self.first[0])
        return per_update if not rest else 0

    def end(self, length: float) -> int:
        """Return the first train step at which the scheduler has made so many steps."""
        step, made = self.latest
        return step + max(0, math.ceil((length - made) / self.per_update))


@dataclass(slots=True)
class PlannedSchedules:
    """The schedules of a worker, and the plan of its training."""

    planned: int | None = None
    """The train steps of the training."""
    schedules: dict[str, PlannedSchedule] = field(default_factory=dict)
    """By optimizer."""

    def note(self, window: Window, worker: str) -> None:
        """Note the checks of a window."""
        found: dict[str, dict[str, float]] = {}
        step = 0
        for reading in window.readings("value"):
            label, _, check = reading.tensor.rpartition("/")
            if reading.worker != worker:
                continue
            if reading.tensor == REMAINING_STEPS:
                self.planned = reading.mode_step + int(reading.value)
            elif check in _CHECKS:
                found.setdefault(label, {})[check] = reading.value
                step = reading.mode_step
        for label, checks in found.items():
            self.schedules.setdefault(label, PlannedSchedule()).note(step, checks)

    def findings(self) -> Iterator[tuple[str, Advice, dict[str, Any]]]:
        """Yield what is known of the end of each schedule: a message, the advice, and the evidence."""
        if self.planned is None or self.planned < _MIN_STEPS:
            return
        for optimizer, schedule in self.schedules.items():
            if not schedule.per_update:
                continue
            evidence = {"planned_steps": self.planned, "scheduler_steps_per_update": schedule.per_update}
            if schedule.length is not None and schedule.end(schedule.length) <= _LATEST * self.planned:
                end = schedule.end(schedule.length)
                message = (
                    f"the schedule of {optimizer} is over at step {end:,} of {self.planned:,}: it is made for "
                    f"{counted(int(schedule.length), 'step')}, and makes {schedule.per_update:,} for each update"
                )
                yield message, _TOO_SHORT, evidence | {"schedule_length": schedule.length, "end": end}
            elif schedule.warm_up is not None and schedule.end(schedule.warm_up) >= self.planned:
                message = (
                    f"the warm-up of {optimizer} takes {counted(int(schedule.warm_up), 'step')} of its scheduler, and "
                    f"the training makes {schedule.per_update * self.planned:,}: the learning rate does not reach its "
                    "value"
                )
                yield message, _TOO_LONG, evidence | {"warm_up_length": schedule.warm_up}
