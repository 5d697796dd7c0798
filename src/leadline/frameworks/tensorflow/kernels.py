"""Statistics of tensors on the device that holds them, in a graph or eagerly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf


def is_numeric(tensor: Any) -> bool:
    """Return whether statistics can be computed of a tensor."""
    dtype = tensor.dtype
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex)


def is_on_host(tensor: Any) -> bool:
    """Return whether NumPy can compute statistics of a tensor without a copy, which is faster than eager operations.

    ``tensor._numpy()`` is the tensor's memory; NumPy has no arithmetic of its own for other types than these.
    """
    return tensor.dtype.name in _OF_NUMPY and tensor.device.endswith("CPU:0")


_MAX_STACKED: Final = 2**24
"""Elements of the tensors that are stacked, which takes their memory once more."""
_OF_NUMPY: Final = frozenset({"float16", "float32", "float64"})


def summarize(tensors: Sequence[Any], primaries: Sequence[str]) -> Any:
    """Return the numbers of elements and the primaries of tensors, accumulated in float64.

    Those of one shape and type are stacked and computed together: the graph has few operations.

    Shape:
        tensors: any; result: ``(len(tensors), 1 + len(primaries))`` in float64.
    Not a number:
        ``min`` and ``max`` are those of the finite elements, if there are any; the rest as in IEEE 754.
    """
    parts = list(_equal_ones(tensors))
    rows = [_rows([tensors[at] for at in part], primaries) for part in parts]
    if len(rows) == 1:
        return rows[0]
    place = {at: row for row, at in enumerate(at for part in parts for at in part)}
    return tf.gather(tf.concat(rows, axis=0), [place[at] for at in range(len(tensors))])


def _equal_ones(tensors: Sequence[Any]) -> Iterator[list[int]]:
    """Yield the indices of tensors that are stacked."""
    groups: dict[Any, list[int]] = {}
    for at, tensor in enumerate(tensors):
        is_known = tensor.shape.is_fully_defined()
        groups.setdefault((tuple(tensor.shape), tensor.dtype) if is_known else at, []).append(at)
    for members in groups.values():
        length = max(1, _MAX_STACKED // max(1, tensors[members[0]].shape.num_elements() or 1))
        yield from (members[begin : begin + length] for begin in range(0, len(members), length))


def _rows(tensors: Sequence[Any], primaries: Sequence[str]) -> Any:
    """Return the rows of tensors of one shape and type."""
    stack = tf.reshape(tf.stack(tensors), [len(tensors), -1])
    wide = tf.cast(tf.abs(stack) if stack.dtype.is_complex else stack, tf.float64)
    size = tf.fill([len(tensors)], tf.cast(tf.shape(wide, out_type=tf.int64)[1], tf.float64))
    return tf.stack([size, *(_COMPUTE[primary](wide) for primary in primaries)], axis=1)


def _extreme(wide: Any, reduce: Callable[..., Any], limit: float) -> Any:
    finite = tf.math.is_finite(wide)
    of_finite = reduce(tf.where(finite, wide, tf.constant(limit, tf.float64)), axis=1)
    has_nan = tf.reduce_any(tf.math.is_nan(wide), axis=1)
    otherwise = tf.where(has_nan, tf.constant(np.nan, tf.float64), reduce(wide, axis=1))
    return tf.where(tf.reduce_any(finite, axis=1), of_finite, otherwise)


def _sum(wide: Any) -> Any:
    return tf.reduce_sum(wide, axis=1)


def _count(mask: Any) -> Any:
    return tf.cast(tf.math.count_nonzero(mask, axis=1), tf.float64)


_COMPUTE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "min": lambda wide: _extreme(wide, tf.reduce_min, np.inf),
    "max": lambda wide: _extreme(wide, tf.reduce_max, -np.inf),
    "sum": _sum,
    "l1": lambda wide: _sum(tf.abs(wide)),
    "squares": lambda wide: _sum(wide * wide),
    "abs_min": lambda wide: _extreme(tf.abs(wide), tf.reduce_min, np.inf),
    "centred": lambda wide: _sum(tf.square(wide - tf.reduce_mean(wide, axis=1, keepdims=True))),
    "zeros": lambda wide: _count(wide == 0),
    "nan_count": lambda wide: _count(tf.math.is_nan(wide)),
    "nonfinite_count": lambda wide: _count(~tf.math.is_finite(wide)),
}
