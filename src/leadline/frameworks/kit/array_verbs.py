"""The few operations on arrays in which frameworks differ; operators such as ``==`` and ``|`` are alike."""

from __future__ import annotations

from typing import Any

import numpy as np


class ArrayVerbs:
    """Operations on the arrays of one framework, here of numpy; a number is an array of shape ``()``.

    Args:
        namespace: Has ``min``, ``max``, ``all``, ``sum``, ``mean``, ``exp`` and ``floor``, as numpy, PyTorch and
            ``keras.ops`` have.
    """

    def __init__(self, namespace: Any = np) -> None:
        self.min, self.max = namespace.min, namespace.max
        self.sum, self.exp, self.floor = namespace.sum, namespace.exp, namespace.floor
        self._all, self._mean = namespace.all, namespace.mean

    def floats(self, values: Any) -> Any:
        """Return an array as floating-point numbers."""
        return self.doubles(values)

    def doubles(self, values: Any) -> Any:
        """Return an array in float64."""
        return np.asarray(values).astype(np.float64)

    def count(self, values: Any) -> Any:
        """Return the number of elements."""
        return values.size

    def given(self, condition: Any, number: Any) -> Any | None:
        """Return a number if a condition holds; else None, or NaN where only the device knows."""
        return number if condition else None

    def every(self, condition: Any) -> Any:
        """Return whether a condition holds for all elements, as a number."""
        return self.doubles(self._all(condition))

    def share(self, condition: Any) -> Any:
        """Return the share of elements for which a condition holds."""
        return self._mean(self.doubles(condition))
