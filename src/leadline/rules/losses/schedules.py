"""Schedules that end in the middle of their warm-up, or go on beyond the end of a cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leadline.records.formatting import counted, share
from leadline.records.names import CHECKS, COSINE_PROGRESS, RATE_SHARE, SCHEDULE_STEPS, SCHEDULERS
from leadline.rules import TensorNeed, Window

_LOW: Final = 0.2
"""The share of its group's rate below which a rising rate is still in its warm-up."""
_MIN_UPDATES: Final = 50
"""Fewer updates may well be a look at the beginning of a training."""
_TOGETHER: Final = 3
"""Captures; where one scheduler takes over from another, both make steps between two of them."""
_BEYOND: Final = 1.2
"""From here on a cosine has risen again by a tenth of its height."""
_CHECKS: Final = (RATE_SHARE, SCHEDULE_STEPS, COSINE_PROGRESS, SCHEDULERS)
NEED: Final = TensorNeed(
    CHECKS,
    regex=f"/({'|'.join(_CHECKS)})$",
    statistics=("value",),
    modes=("train",),
    every=10,
    is_optional=True,
)


@dataclass(slots=True)
class RateSchedule:
    """The learning rate of an optimizer that has a scheduler."""

    first: float | None = None
    """The first share of its group's rate."""
    latest: float = 0.0
    is_rising: bool = True
    """Whether the share has never fallen."""
    steps: int | None = None
    """How often the scheduler was stepped; None: there are several."""
    progress: float = 0.0
    """The calls of a cosine's scheduler as a share of its length."""
    updates: int = 0
    schedulers: int = 1
    """The most that have made steps between two captures."""
    together: int = 0
    """The captures between which several have."""

    @staticmethod
    def note(known: dict[tuple[str, str], RateSchedule], window: Window) -> None:
        """Note the checks of a window, by worker and optimizer."""
        for reading in window.readings("value"):
            label, _, check = reading.tensor.rpartition("/")
            if check not in _CHECKS or reading.value != reading.value:
                continue
            schedule = known.setdefault((reading.worker, label), RateSchedule())
            schedule.updates = reading.mode_step + 1 - window.begun
            if check == RATE_SHARE:
                schedule.first = reading.value if schedule.first is None else schedule.first
                schedule.is_rising &= reading.value >= schedule.latest
                schedule.latest = reading.value
            elif check == SCHEDULE_STEPS:
                schedule.steps = int(reading.value)
            elif check == SCHEDULERS:
                schedule.schedulers = max(schedule.schedulers, int(reading.value))
                schedule.together += reading.value > 1
            else:
                schedule.progress = reading.value

    def remark(self, optimizer: str) -> str:
        """Return what is worth knowing at the end of the run; empty: nothing."""
        if self.progress > _BEYOND:
            return (
                f"the scheduler of {optimizer} was stepped {self.progress:.1f} times as often as the T_max of its "
                "cosine, beyond which the learning rate rises again: T_max counts the calls of scheduler.step() in the "
                "whole training"
            )
        if self.together >= _TOGETHER:
            return (
                f"{self.schedulers} schedulers change the learning rate of {optimizer}, each from what the others have "
                "made of it: leave out one, unless they are meant to be chained; a trainer makes its own"
            )
        is_warming_up = self.is_rising and self.first is not None and self.first < self.latest < _LOW
        if not is_warming_up or self.updates < _MIN_UPDATES:
            return ""
        steps = f", with {counted(self.steps, 'step')} of its scheduler" if self.steps is not None else ""
        return (
            f"the learning rate of {optimizer} was still rising after {self.updates:,} updates{steps}, at "
            f"{share(self.latest)} of its group's: a warm-up that counts updates needs scheduler.step() after each one"
        )
