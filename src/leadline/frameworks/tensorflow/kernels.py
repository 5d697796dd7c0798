"""Statistics of tensors on the device that holds them, in a graph or eagerly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


_OF_NUMPY: Final = frozenset({"float16", "float32", "float64"})


def summarize(tensor: Any, primaries: Sequence[str]) -> Any:
    """Return the number of elements and the primaries of a tensor, accumulated in float64.

    Shape:
        tensor: any; result: ``(1 + len(primaries),)`` in float64.
    Not a number:
        ``min`` and ``max`` are those of the finite elements, if there are any; the rest as in IEEE 754.
    """
    wide = tf.reshape(tf.cast(tf.abs(tensor) if tensor.dtype.is_complex else tensor, tf.float64), [-1])
    size = tf.size(wide, out_type=tf.int64)
    numbers = [_COMPUTE[primary](wide) for primary in primaries]
    return tf.stack([tf.cast(size, tf.float64), *numbers])


def _extreme(wide: Any, reduce: Callable[[Any], Any], limit: float) -> Any:
    finite = tf.math.is_finite(wide)
    of_finite = reduce(tf.where(finite, wide, tf.constant(limit, tf.float64)))
    has_nan = tf.reduce_any(tf.math.is_nan(wide))
    otherwise = tf.where(has_nan, tf.constant(np.nan, tf.float64), reduce(wide))
    return tf.where(tf.reduce_any(finite), of_finite, otherwise)


def _count(mask: Any) -> Any:
    return tf.cast(tf.math.count_nonzero(mask), tf.float64)


_COMPUTE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "min": lambda wide: _extreme(wide, tf.reduce_min, np.inf),
    "max": lambda wide: _extreme(wide, tf.reduce_max, -np.inf),
    "sum": tf.reduce_sum,
    "l1": lambda wide: tf.reduce_sum(tf.abs(wide)),
    "squares": lambda wide: tf.reduce_sum(wide * wide),
    "abs_min": lambda wide: _extreme(tf.abs(wide), tf.reduce_min, np.inf),
    "centred": lambda wide: tf.reduce_sum(tf.square(wide - tf.reduce_mean(wide))),
    "zeros": lambda wide: _count(wide == 0),
    "nan_count": lambda wide: _count(tf.math.is_nan(wide)),
    "nonfinite_count": lambda wide: _count(~tf.math.is_finite(wide)),
}
