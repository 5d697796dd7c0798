"""The end of a training that has converged: losses that are small against their largest value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from leadline.rules import TensorReading

_CONVERGED: Final = 1e-3


class LossLevels:
    """The largest and the latest value of each training loss."""

    def __init__(self) -> None:
        self._largest: dict[tuple[str, str], float] = {}
        self._latest: dict[tuple[str, str], float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the losses."""
        return tuple(dict.fromkeys(name for _, name in self._latest))

    def add(self, losses: Iterable[TensorReading]) -> None:
        """Add the losses of a step; those that are NaN or infinite are left out."""
        for reading in losses:
            if math.isfinite(reading.value):
                key, size = (reading.worker, reading.tensor), abs(reading.value)
                self._latest[key] = size
                self._largest[key] = max(size, self._largest.get(key, 0.0))

    def have_converged(self) -> bool:
        """Return whether every loss is at most a thousandth of its largest value so far; False: none is known."""
        pairs = [(self._latest[key], largest) for key, largest in self._largest.items()]
        return bool(pairs) and all(largest > 0 and latest <= _CONVERGED * largest for latest, largest in pairs)
