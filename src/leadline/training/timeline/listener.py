"""Listeners to the boundaries of steps."""

from __future__ import annotations

from typing import Protocol


class StepListener(Protocol):
    """Is called at the boundaries of steps and phases unless it is idle."""

    @property
    def is_idle(self) -> bool:
        """Whether no call is needed now."""

    def begin_step(self, step: int, ended: str = "train") -> None:
        """Begin a step.

        Args:
            step: Its global number.
            ended: The mode of the previous step.
        """

    def mark(self, phase: str) -> None:
        """Begin ``backward`` or ``optimizer`` within a train step, for the first time or again."""


class NullListener:
    """A listener that is always idle."""

    is_idle = True

    def begin_step(self, step: int, ended: str = "train") -> None: ...

    def mark(self, phase: str) -> None: ...
