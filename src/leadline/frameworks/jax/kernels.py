"""Statistics of arrays on the device that holds them, within a program or of arrays at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax import lax

from leadline.frameworks.jax import compatibility


def summarize(array: Any, primaries: Sequence[str]) -> Any:
    """Return the number of elements and the primaries of an array, accumulated in float64; on a TPU in float32.

    Shape:
        array: any; result: ``(1 + len(primaries),)``.
    Not a number:
        ``min`` and ``max`` are those of the finite elements, if there are any; the rest as in IEEE 754.
    """
    with compatibility.enable_x64(True):
        wide = lax.convert_element_type(lax.abs(array) if array.dtype.kind == "c" else array, wide_type())
        names = dict.fromkeys(term for primary in primaries for term in _TERMS_OF[primary])
        terms = [_TERMS[name] for name in names]
        totals = dict(zip(names, _reduce([term.of(wide) for term in terms], terms), strict=True))
        return _row([_number(array.size), *(_primary(primary, array.size, totals) for primary in primaries)])


def change_ratio(weight: Any, after: Any, update: Any = None) -> Any:
    """Return the norm of the change of a weight by its norm: infinite if only the weight is 0.

    Shape:
        weight, after, update: ``(*shape,)``; result: ``(1,)``, with an update ``(3,)``.
    Args:
        update: What was added; the number of its elements, and of those that are 0, are returned as well.
    """
    with compatibility.enable_x64(True):
        before, now = (lax.convert_element_type(each, wide_type()) for each in (weight, after))
        squares = _TERMS["squares"]
        totals = _reduce([squares.of(lax.sub(now, before)), squares.of(before)], [squares, squares])
        change, norm = (lax.sqrt(total) for total in totals)
        nothing = lax.select(lax.eq(change, _number(0)), change, _number(np.inf))
        row = _row([lax.select(lax.eq(norm, _number(0)), nothing, lax.div(change, norm))])
        return row if update is None else lax.concatenate([row, summarize(update, ("zeros",))], 0)


def always() -> Any:
    """Return the mark of values that were computed, as ``(1,)``."""
    with compatibility.enable_x64(True):
        return _row([_number(1)])


def joined(rows: Sequence[Any]) -> Any:
    """Return all numbers of some rows one after the other."""
    with compatibility.enable_x64(True):
        return lax.concatenate([lax.reshape(row, (row.size,)) for row in rows], 0)


def wide_type() -> Any:
    """Return the type in which statistics are computed."""
    return np.dtype("float32" if jax.default_backend() == "tpu" else "float64")


def _number(value: float) -> Any:
    return lax.full((), value, wide_type())


def _row(numbers: Sequence[Any]) -> Any:
    return lax.concatenate([lax.reshape(number, (1,)) for number in numbers], 0)


class _Term(NamedTuple):
    """A reduction over all elements of an array."""

    of: Callable[[Any], Any]
    start: float
    operation: Callable[[Any, Any], Any]


def _finite(wide: Any, otherwise: float) -> Any:
    return lax.select(lax.is_finite(wide), wide, lax.full_like(wide, otherwise))


def _shifted(wide: Any) -> Any:
    """Return the differences from the first element."""
    if not wide.size:
        return wide
    first = lax.reshape(lax.slice(wide, (0,) * wide.ndim, (1,) * wide.ndim), ())
    return lax.sub(wide, lax.broadcast(first, wide.shape))


def _mask(mask: Any) -> Any:
    return lax.convert_element_type(mask, wide_type())


_TERMS: Final[Mapping[str, _Term]] = {
    "finite_min": _Term(lambda wide: _finite(wide, np.inf), np.inf, lax.min),
    "finite_max": _Term(lambda wide: _finite(wide, -np.inf), -np.inf, lax.max),
    "finite_abs_min": _Term(lambda wide: _finite(lax.abs(wide), np.inf), np.inf, lax.min),
    "lowest": _Term(lambda wide: wide, np.inf, lax.min),
    "highest": _Term(lambda wide: wide, -np.inf, lax.max),
    "sum": _Term(lambda wide: wide, 0, lax.add),
    "absolutes": _Term(lax.abs, 0, lax.add),
    "squares": _Term(lambda wide: lax.mul(wide, wide), 0, lax.add),
    "shifted": _Term(_shifted, 0, lax.add),
    "shifted_squares": _Term(lambda wide: lax.mul(_shifted(wide), _shifted(wide)), 0, lax.add),
    "zeros": _Term(lambda wide: _mask(lax.eq(wide, lax.full_like(wide, 0))), 0, lax.add),
    "nans": _Term(lambda wide: _mask(lax.ne(wide, wide)), 0, lax.add),
    "finite": _Term(lambda wide: _mask(lax.is_finite(wide)), 0, lax.add),
}
_TERMS_OF: Final[Mapping[str, Sequence[str]]] = {
    "min": ("finite_min", "finite", "nans", "lowest"),
    "max": ("finite_max", "finite", "nans", "highest"),
    "sum": ("sum",),
    "l1": ("absolutes",),
    "squares": ("squares",),
    "abs_min": ("finite_abs_min", "finite", "nans"),
    "centred": ("shifted", "shifted_squares"),
    "zeros": ("zeros",),
    "nan_count": ("nans",),
    "nonfinite_count": ("finite",),
}


def _reduce(values: Sequence[Any], terms: Sequence[_Term]) -> list[Any]:
    """Return the total of each term from its values at all elements of an array.

    All terms are reduced together, since XLA stores the converted array once per term otherwise. The first axis is
    reduced last, since XLA computes a reduction to a single number in one thread.
    """

    def combine(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        return [term.operation(a, b) for term, a, b in zip(terms, one, other, strict=True)]

    starts = [_number(term.start) for term in terms]
    for axes in (tuple(range(1, values[0].ndim)), (0,)) if terms and values[0].ndim else ():
        values = lax.reduce(values, starts, combine, axes)
    return list(values)


def _primary(name: str, size: int, totals: Mapping[str, Any]) -> Any:
    match name:
        case "min":
            return _extreme(totals, totals["finite_min"], totals["lowest"])
        case "max":
            return _extreme(totals, totals["finite_max"], totals["highest"])
        case "abs_min":
            return _extreme(totals, totals["finite_abs_min"], _number(np.inf))
        case "centred":
            return _centred(size, totals["shifted"], totals["shifted_squares"])
        case "nonfinite_count":
            return lax.sub(_number(size), totals["finite"])
        case _:
            return totals[_TERMS_OF[name][0]]


def _centred(size: int, shifted: Any, squares: Any) -> Any:
    """Return the sum of squared distances from the mean, from sums of the differences from the first element.

    Since the first element is one of the sample, the square of its distance from the mean is at most ``size`` times the
    variance: the difference below loses at most the digits of ``size``.
    """
    centred = lax.sub(squares, lax.div(lax.mul(shifted, shifted), _number(size)))
    return lax.max(centred, _number(0))


def _extreme(totals: Mapping[str, Any], of_finite: Any, of_all: Any) -> Any:
    otherwise = lax.select(lax.gt(totals["nans"], _number(0)), _number(np.nan), of_all)
    return lax.select(lax.gt(totals["finite"], _number(0)), of_finite, otherwise)
