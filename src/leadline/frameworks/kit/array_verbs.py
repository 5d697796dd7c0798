"""The few operations on arrays in which frameworks differ; ``==``, ``|``, ``<``, ``-``, ``*`` and ``abs`` are alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class ArrayVerbs(ABC):
    """Operations on the arrays of one framework; a number is an array of shape ``()``."""

    @abstractmethod
    def floats(self, values: Any) -> Any:
        """Return an array as floating-point numbers."""

    @abstractmethod
    def minimum(self, values: Any) -> Any:
        """Return the smallest element."""

    @abstractmethod
    def maximum(self, values: Any) -> Any:
        """Return the largest element."""

    @abstractmethod
    def every(self, condition: Any) -> Any:
        """Return whether a condition holds for all elements, as a number."""

    @abstractmethod
    def share(self, condition: Any) -> Any:
        """Return the share of elements for which a condition holds, in float64."""

    @abstractmethod
    def sums(self, values: Any, axis: int) -> Any:
        """Return the sums along an axis."""

    @abstractmethod
    def exp(self, values: Any) -> Any:
        """Return the exponentials."""

    @abstractmethod
    def floor(self, values: Any) -> Any:
        """Return the largest whole numbers below."""

    @abstractmethod
    def count(self, values: Any) -> Any:
        """Return the number of elements."""

    def given(self, condition: Any, number: Any) -> Any | None:
        """Return a number if a condition holds; else None, or NaN where only the device knows."""
        return number if condition else None


class NumpyVerbs(ArrayVerbs):
    """Operations on arrays of numpy."""

    def floats(self, values: Any) -> Any:
        return np.asarray(values).astype(np.float64)

    def minimum(self, values: Any) -> Any:
        return values.min()

    def maximum(self, values: Any) -> Any:
        return values.max()

    def every(self, condition: Any) -> Any:
        return np.float64(condition.all())

    def share(self, condition: Any) -> Any:
        return condition.mean(dtype=np.float64)

    def sums(self, values: Any, axis: int) -> Any:
        return values.sum(axis)

    def exp(self, values: Any) -> Any:
        return np.exp(values)

    def floor(self, values: Any) -> Any:
        return np.floor(values)

    def count(self, values: Any) -> Any:
        return values.size
