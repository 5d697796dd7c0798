"""Evaluations that all have the same loss, although the weights of the training move."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from leadline.records.formatting import significant

_MIN_EVALUATIONS: Final = 3
_DIGITS: Final = 1e-3
"""The unit of the last decimal of printed values, as a share of them, above which equal ones may be equal by chance."""
_MAX_VALUES: Final = 64
"""Losses of an evaluation that are compared."""


@dataclass(slots=True)
class StillEvaluation:
    """A validation loss of a worker, as far as it has been the same since the first evaluation."""

    train_step: int = -1
    """That of the latest evaluation."""
    evaluations: int = 0
    first: list[float] = field(default_factory=list)
    """The losses of the first evaluation."""
    place: int = 0
    """The number of losses of the latest evaluation."""
    is_still: bool = True

    def add(self, train_step: int, value: float) -> None:
        """Add a loss of the evaluation after a train step."""
        if train_step != self.train_step:
            self.train_step, self.place = train_step, 0
            self.evaluations += 1
        if self.evaluations == 1 and self.place < _MAX_VALUES:
            self.first.append(value)
        elif self.place < len(self.first):
            self.is_still = self.is_still and value == self.first[self.place]
        self.place += 1

    def remark(self, name: str, resolution: float) -> str:
        """Return the remark on a loss that has never changed; empty: none.

        Args:
            resolution: The unit of the last decimal of printed values; infinite: they are exact.
        """
        largest = max(map(abs, self.first), default=0.0)
        is_exact = math.isinf(resolution) or resolution <= _DIGITS * largest
        if not self.is_still or self.evaluations < _MIN_EVALUATIONS or not 0 < largest < math.inf or not is_exact:
            return ""
        return (
            f"{name} is {significant(self.first[0])} in all {self.evaluations:,} evaluations, without any change, "
            "though the weights have moved: what is evaluated is a copy, such as an average, that nothing updates, or "
            "a part that is not trained"
        )
