"""Means of a series over blocks of equal length, of which there are never many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_BLOCKS: Final = 128


@dataclass(slots=True)
class BlockMeans:
    """Means of a loss or metric over blocks of equal length.

    The length doubles when there are too many blocks: the smoothing is over a fixed share of a run of any length.
    """

    length: int = 1
    values: int = 0
    """The number of values so far."""
    means: list[float] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """The train step of the first value of each block."""
    last_step: int = -1
    """The train step of the latest value."""
    _sum: float = 0.0
    _count: int = 0
    _begin: int = 0

    def add(self, value: float, train_step: int) -> bool:
        """Add a value; return whether it completes a block.

        Args:
            train_step: The train step that had been finished; values of one evaluation share it.
        """
        self.values += 1
        self.last_step = train_step
        if not self._count:
            self._begin = train_step
        self._sum += value
        self._count += 1
        if self._count < self.length:
            return False
        self.means.append(self._sum / self._count)
        self.begins.append(self._begin)
        self._sum, self._count = 0.0, 0
        if len(self.means) == MAX_BLOCKS:
            pairs = zip(self.means[::2], self.means[1::2], strict=True)
            self.means, self.begins = [(one + other) / 2 for one, other in pairs], self.begins[::2]
            self.length *= 2
        return True

    @property
    def half_step(self) -> int:
        """The train step at which the last half of the blocks begins; 0 if there is none."""
        return self.begins[len(self.begins) // 2] if self.begins else 0

    @property
    def last_half(self) -> list[float]:
        """The means of the last half of the blocks."""
        return self.means[len(self.means) // 2 :]
