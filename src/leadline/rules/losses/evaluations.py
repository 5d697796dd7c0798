"""Means of the evaluations of a run, and of the training between them."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Mean:
    """The mean of the values of one evaluation, or of those of training since the last one."""

    step: int = -1
    """The train step before the evaluation."""
    total: float = 0.0
    count: int = 0
    first: float = math.nan
    """The first value of all that were added."""
    is_read: bool = False
    """Whether the next value begins another mean."""

    def add(self, value: float) -> None:
        """Add a finite value."""
        if self.is_read:
            self.total, self.count, self.is_read = 0.0, 0, False
        self.first = value if math.isnan(self.first) else self.first
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        """The mean; NaN without values."""
        return self.total / self.count if self.count else math.nan
