"""Losses that the device may still be computing."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
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
        return all(array.is_ready() for array in self._late_arrays())

    def is_lost(self) -> bool:
        """Return whether it will never be known: its array was deleted."""
        return any(array.is_deleted() for array in self._late_arrays())

    def _late_arrays(self) -> Iterator[jax.Array]:
        """Yield what a device may still compute: constants are numbers of JAX's own."""
        return (array for array, _ in self._arrays if isinstance(array, jax.Array))

    def __float__(self) -> float:
        return sum(_read(array, at) for array, at in self._arrays) / self._divisor


class LateMean(LateNumber):
    """The loss of a batch, by the means of an epoch until then.

    Args:
        now: The mean with the batch, and the number of samples until then.
        before: The mean without the batch; None: it is the first one.
    """

    __slots__ = ("_before", "_now")

    def __init__(self, now: tuple[Any, int], before: tuple[Any, int]) -> None:
        super().__init__([(now[0], 0)] if before[0] is None else [(now[0], 0), (before[0], 0)])
        self._now, self._before = now, before

    def __float__(self) -> float:
        (mean, count), (mean_before, count_before) = self._now, self._before
        before = _read(mean_before, 0) * count_before if mean_before is not None else 0.0
        return (_read(mean, 0) * count - before) / (count - count_before)


class LateRow:
    """See ``leadline.frameworks.adapter.PendingNumbers``: numbers of which some may still be computed."""

    def __init__(self, numbers: Sequence[Any]) -> None:
        self._numbers = tuple(numbers)

    def is_done(self) -> bool:
        late = [number for number in self._numbers if isinstance(number, LateNumber)]
        return all(number.is_lost() or number.is_ready() for number in late)

    def wait(self) -> None:
        """Do nothing: ``values`` waits."""

    def values(self) -> bytes | None:
        if any(number.is_lost() for number in self._numbers if isinstance(number, LateNumber)):
            return None
        return struct.pack(f"<{len(self._numbers)}d", *map(float, self._numbers))


def _read(array: Any, at: int) -> float:
    with jax.transfer_guard_device_to_host("allow"):  # as jax.device_get does, which takes several times as long
        values = np.asarray(array)
    if not values.ndim:
        return float(values)
    flat = values.astype(np.float64).reshape(-1)
    return float(flat[at] if at < flat.size else flat.mean())
