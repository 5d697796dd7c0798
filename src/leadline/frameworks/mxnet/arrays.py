"""Reading of MXNet's arrays, without adding to what autograd records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from mxnet import autograd
from mxnet.ndarray import NDArray

Array = npt.NDArray[Any]
_MAX_DEPTH: Final = 4
"""Depth to which nested lists are searched."""


def read(array: Any) -> Array:
    """Return a copy of an array on the host, a sparse one as a dense one; waits until it is computed."""
    values: Array
    if array.stype == "default":
        values = array.asnumpy()
    else:
        with autograd.pause():  # an operator makes it dense
            values = array.asnumpy()
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values


def mean_of(array: Any) -> float:
    """Return the mean of an array's elements; waits until it is computed."""
    values = read(array)
    with np.errstate(all="ignore"):
        return float(values.mean(dtype=np.float64)) if values.size else float("nan")


def arrays_in(values: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the arrays in the inputs or outputs of a block, including those in nested lists."""
    if isinstance(values, NDArray):
        yield values
    elif isinstance(values, (list, tuple)) and depth < _MAX_DEPTH:
        for value in values:
            yield from arrays_in(value, depth + 1)
