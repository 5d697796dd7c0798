"""Numbers that a framework may still be computing, and rows of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Protocol, Self


class LatePart(Protocol):
    """A number that may still be computed."""

    def is_ready(self) -> bool:
        """Return whether it can be read without waiting."""

    def is_lost(self) -> bool:
        """Return whether it will never be known."""

    def read(self) -> float:
        """Return the number; waits until it is computed."""


class LateScalar:
    """A sum of numbers that may still be computed, divided; each framework has its subclass.

    Args:
        parts: The numbers.
        known: A part of the sum that is known.
    """

    __slots__ = ("_divisor", "_known", "_parts")

    def __init__(self, parts: Sequence[LatePart], known: float = 0.0, divisor: float = 1.0) -> None:
        self._parts = tuple(parts)
        self._known = known
        self._divisor = divisor

    def __radd__(self, other: float) -> Self:
        return type(self)(self._parts, other + self._known, self._divisor)

    def __add__(self, other: Self) -> Self:
        return type(self)((*self._parts, *other._parts), self._known + other._known, self._divisor)

    def __truediv__(self, divisor: float) -> Self:
        return type(self)(self._parts, self._known, self._divisor * divisor)

    def is_ready(self) -> bool:
        """Return whether it can be read without waiting."""
        return all(part.is_ready() for part in self._parts)

    def is_lost(self) -> bool:
        """Return whether it will never be known."""
        return any(part.is_lost() for part in self._parts)

    def __float__(self) -> float:
        return sum((part.read() for part in self._parts), self._known) / self._divisor


class LateRow:
    """See ``leadline.frameworks.pending.PendingNumbers``: numbers of which some may still be computed."""

    def __init__(self, numbers: Sequence[Any]) -> None:
        self._numbers = tuple(numbers)
        self._late = [number for number in numbers if isinstance(number, LateScalar)]

    def is_done(self) -> bool:
        return all(number.is_lost() or number.is_ready() for number in self._late)

    def wait(self) -> None:
        """Do nothing: ``values`` waits."""

    def values(self) -> bytes | None:
        if any(number.is_lost() for number in self._late):
            return None
        return struct.pack(f"<{len(self._numbers)}d", *map(float, self._numbers))
