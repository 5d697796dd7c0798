"""Losses that MXNet may still be computing."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from mxnet import autograd

from leadline.frameworks.mxnet.arrays import mean_of


class LossMean:
    """The mean of the head of a backward pass, which may still be computed.

    Args:
        head: The array that the backward pass starts from.
        loss: The loss that the head was computed from, and whose mean is meant if that of the head is finite: a head
            that is not finite may have been made so by something else.
    """

    __slots__ = ("_head", "_loss", "_value")

    def __init__(self, head: Any, loss: Any = None) -> None:
        self._head, self._loss = head, loss
        self._value: float | None = None

    @property
    def is_read(self) -> bool:
        """Whether the number is known."""
        return self._value is not None

    def copy_arrays(self) -> None:
        """Copy the arrays, which the script may change in place."""
        with autograd.pause():
            self._head = self._head.copy()
            self._loss = self._loss.copy() if self._loss is not None else None

    def read(self) -> float:
        """Return the number; waits until it is computed."""
        if self._value is None:
            value = mean_of(self._head)
            if self._loss is not None and math.isfinite(value):
                value = mean_of(self._loss)
            self._value, self._head, self._loss = value, None, None
        return self._value


class LateLoss:
    """A sum of means that may still be computed, divided.

    Args:
        known: A part of the sum that is known.
    """

    __slots__ = ("_divisor", "_known", "means")

    def __init__(self, means: Sequence[LossMean], known: float = 0.0, divisor: float = 1.0) -> None:
        self.means, self._known, self._divisor = tuple(means), known, divisor

    def __radd__(self, other: float) -> LateLoss:
        return LateLoss(self.means, other + self._known)

    def __add__(self, other: LateLoss) -> LateLoss:
        return LateLoss((*self.means, *other.means), self._known + other._known)

    def __truediv__(self, divisor: float) -> LateLoss:
        return LateLoss(self.means, self._known, self._divisor * divisor)

    def __float__(self) -> float:
        return sum((mean.read() for mean in self.means), self._known) / self._divisor


class LateLossRow:
    """See ``leadline.frameworks.adapter.PendingNumbers``: a row with losses that were not read when it was made."""

    def __init__(self, numbers: Sequence[Any]) -> None:
        self._numbers = tuple(numbers)
        self._means = [mean for number in numbers if isinstance(number, LateLoss) for mean in number.means]

    def is_done(self) -> bool:
        return all(mean.is_read for mean in self._means)

    def wait(self) -> None:
        for mean in self._means:
            mean.read()

    def values(self) -> bytes:
        return struct.pack(f"<{len(self._numbers)}d", *map(float, self._numbers))
