"""Losses that MXNet may still be computing."""

from __future__ import annotations

import math
from typing import Any

from mxnet import autograd

from leadline.frameworks.kit.late_scalar import LateScalar
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

    def is_ready(self) -> bool:
        """Return whether the number is known."""
        return self._value is not None

    def is_lost(self) -> bool:
        """Return False: its arrays are its own."""
        return False

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


class MXNetScalar(LateScalar):
    """A sum of means that MXNet may still be computing, divided."""

    __slots__ = ()
