"""Who wants to know where the training is, at some steps only."""

from __future__ import annotations

from typing import Protocol


class StepListener(Protocol):
    """Is told of the boundaries of steps while it is not calm."""

    @property
    def is_calm(self) -> bool:
        """Whether nothing needs to be told now."""

    def begin_step(self, step: int, ended: str = "train") -> None:
        """A step begins, the global one of that number; the one before was of that mode."""

    def mark(self, phase: str) -> None:
        """Within a train step ``backward`` or ``optimizer`` begins, for the first time or again."""


class NullListener:
    """Nobody."""

    is_calm = True

    def begin_step(self, step: int, ended: str = "train") -> None: ...

    def mark(self, phase: str) -> None: ...
