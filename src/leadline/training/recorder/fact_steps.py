"""The steps at which facts about loss calls are captured: the first ones of each training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.records.loss_facts import FACT_STEPS

_MAX_TRAININGS: Final = 8
"""So many trainings of a process have facts: of hundreds of short ones the rest is like them."""


class FactSteps:
    """Counts the steps with facts: the first two of the process, and two of each training that begins in it later.

    A training is known with the end of its first step, so that those of a later one are the two after it.

    Args:
        trainings: The first train step of each training so far.
    """

    def __init__(self, clock: StepClock, trainings: Sequence[int]) -> None:
        self._clock, self._trainings = clock, trainings
        self._training = 1
        """The number of the training that the steps are of."""
        self._steps: list[int] = []

    def are_left(self) -> bool:
        """Return whether the current step or a later one of the training may have facts."""
        number, step = len(self._trainings), self._clock.mode_step("train")
        if number <= 1:
            return step < FACT_STEPS
        is_new = number != self._training
        return number <= _MAX_TRAININGS and (is_new or len(self._steps) < FACT_STEPS or step == self._steps[-1])

    def take(self, in_later_trainings: bool) -> int | None:
        """Return how many steps of the training had facts before the current one; None: it has none.

        Args:
            in_later_trainings: Whether it may be one of a later training.
        """
        number, step = len(self._trainings), self._clock.mode_step("train")
        if number <= 1:
            return step if step < FACT_STEPS else None
        if not in_later_trainings or not self.are_left():
            return None
        if number != self._training:
            self._training, self._steps = number, []
        if step not in self._steps:
            self._steps.append(step)
        return self._steps.index(step)
