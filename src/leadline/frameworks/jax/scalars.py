"""Losses that the device may still be computing."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np


class LateNumber:
    """A number in an array that may still be computed; a sum of such numbers, divided.

    Args:
        arrays: Arrays, each with the position of the number in it.
    """

    __slots__ = ("_arrays", "_divisor")

    def __init__(self, arrays: Sequence[tuple[Any, int]], divisor: float = 1.0) -> None:
        self._arrays, self._divisor = tuple(arrays), divisor

    def __radd__(self, other: float) -> LateNumber:
        return self

    def __add__(self, other: LateNumber) -> LateNumber:
        return LateNumber((*self._arrays, *other._arrays), self._divisor)

    def __truediv__(self, divisor: float) -> LateNumber:
        return LateNumber(self._arrays, self._divisor * divisor) if divisor != 1 else self

    def is_ready(self) -> bool:
        """Return whether it can be read without waiting."""
        return all(array.is_ready() for array, _ in self._arrays)

    def is_lost(self) -> bool:
        """Return whether it will never be known: its array was deleted, or the call that computes it has failed."""
        return any(array.is_deleted() for array, _ in self._arrays)

    def __float__(self) -> float:
        return sum(_read(array, at) for array, at in self._arrays) / self._divisor


class LateRow:
    """See ``leadline.frameworks.adapter.PendingNumbers``: numbers of which some may still be computed."""

    def __init__(self, numbers: Sequence[Any]) -> None:
        self._numbers = tuple(numbers)

    def is_done(self) -> bool:
        return all(number.is_ready() for number in self._numbers if isinstance(number, LateNumber))

    def wait(self) -> None:
        """Do nothing: ``values`` waits."""

    def values(self) -> bytes | None:
        if any(number.is_lost() for number in self._numbers if isinstance(number, LateNumber)):
            return None
        return struct.pack(f"<{len(self._numbers)}d", *map(float, self._numbers))


class LateResults:
    """The losses among the results of a call that is still to be made: they are those of its steps."""

    def __init__(self) -> None:
        self.arrays: list[Any] | None = None
        self.has_failed = False


class LateLoss(LateNumber):
    """A loss of a step in a call of several steps, which begin before it is made."""

    __slots__ = ("_at", "_results", "_step")

    def __init__(self, results: LateResults, at: int, step: int) -> None:
        super().__init__(())
        self._results, self._at, self._step = results, at, step

    def __truediv__(self, divisor: float) -> LateNumber:
        return self

    def is_ready(self) -> bool:
        arrays = self._results.arrays
        return self._results.has_failed or (arrays is not None and arrays[self._at].is_ready())

    def is_lost(self) -> bool:
        arrays = self._results.arrays
        return self._results.has_failed or (arrays is not None and arrays[self._at].is_deleted())

    def __float__(self) -> float:
        arrays = self._results.arrays
        assert arrays is not None
        return _read(arrays[self._at], self._step)


def _read(array: Any, at: int) -> float:
    values = np.asarray(jax.device_get(array), np.float64).reshape(-1)
    return float(values[at] if at < values.size else values.mean())
