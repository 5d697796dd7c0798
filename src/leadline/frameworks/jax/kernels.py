"""Statistics of arrays on the device that holds them, within a program or of arrays at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax import lax

from leadline.frameworks.jax import versions


def summarize(array: Any, primaries: Sequence[str]) -> Any:
    """Return the number of elements and the primaries of an array, accumulated in float64; on a TPU in float32.

    Shape:
        array: any; result: ``(1 + len(primaries),)``.
    Not a number:
        ``min`` and ``max`` are those of the finite elements, if there are any; the rest as in IEEE 754.
    """
    with versions.enable_x64(True):
        flat = lax.reshape(lax.abs(array) if array.dtype.kind == "c" else array, (array.size,))
        wide = lax.convert_element_type(flat, wide_type())
        numbers = [_number(array.size), *(_COMPUTE[primary](wide) for primary in primaries)]
        return _row(numbers)


def change_ratio(weight: Any, after: Any) -> Any:
    """Return the norm of the change of a weight by its norm, as ``(1,)``: infinite if only the weight is 0."""
    with versions.enable_x64(True):
        before, now = (lax.convert_element_type(each, wide_type()) for each in (weight, after))
        flat = [lax.reshape(each, (each.size,)) for each in (before, now)]
        change, norm = _norm(lax.sub(flat[1], flat[0])), _norm(flat[0])
        nothing = lax.select(lax.eq(change, _number(0)), change, _number(np.inf))
        return _row([lax.select(lax.eq(norm, _number(0)), nothing, lax.div(change, norm))])


def always() -> Any:
    """Return the mark of values that were computed, as ``(1,)``."""
    with versions.enable_x64(True):
        return _row([_number(1)])


def joined(rows: Sequence[Any]) -> Any:
    """Return all numbers of some rows one after the other."""
    with versions.enable_x64(True):
        return lax.concatenate([lax.reshape(row, (row.size,)) for row in rows], 0)


def wide_type() -> Any:
    """Return the type in which statistics are computed."""
    return np.dtype("float32" if jax.default_backend() == "tpu" else "float64")


def _number(value: float) -> Any:
    return lax.full((), value, wide_type())


def _row(numbers: Sequence[Any]) -> Any:
    return lax.concatenate([lax.reshape(number, (1,)) for number in numbers], 0)


def _sum(wide: Any) -> Any:
    return lax.reduce(wide, _number(0), lax.add, tuple(range(wide.ndim)))


def _norm(wide: Any) -> Any:
    return lax.sqrt(_sum(lax.mul(wide, wide)))


def _extreme(wide: Any, operation: Callable[[Any, Any], Any], limit: float) -> Any:
    def reduce(values: Any) -> Any:
        return lax.reduce(values, _number(limit), operation, (0,))

    finite = lax.is_finite(wide)
    of_finite = reduce(lax.select(finite, wide, lax.full_like(wide, limit)))
    nans = _count(lax.ne(wide, wide))
    otherwise = lax.select(lax.gt(nans, _number(0)), _number(np.nan), reduce(wide))
    return lax.select(lax.gt(_count(finite), _number(0)), of_finite, otherwise)


def _count(mask: Any) -> Any:
    return _sum(lax.convert_element_type(mask, wide_type()))


def _std(wide: Any) -> Any:
    size = _number(wide.size)
    deviation = lax.sub(wide, lax.broadcast(lax.div(_sum(wide), size), wide.shape))
    return lax.sqrt(lax.div(_sum(lax.mul(deviation, deviation)), size))


_COMPUTE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "min": lambda wide: _extreme(wide, lax.min, np.inf),
    "max": lambda wide: _extreme(wide, lax.max, -np.inf),
    "sum": _sum,
    "l1": lambda wide: _sum(lax.abs(wide)),
    "l2": _norm,
    "abs_min": lambda wide: _extreme(lax.abs(wide), lax.min, np.inf),
    "std": _std,
    "zeros": lambda wide: _count(lax.eq(wide, lax.full_like(wide, 0))),
    "nans": lambda wide: _count(lax.ne(wide, wide)),
    "nonfinite": lambda wide: _count(lax.bitwise_not(lax.is_finite(wide))),
}
