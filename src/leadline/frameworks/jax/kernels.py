"""Statistics of arrays on the device that holds them, within a program or of arrays at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax import lax

from leadline.frameworks.jax import compatibility


def summarize(arrays: Sequence[Any], primaries: Sequence[str]) -> Any:
    """Return the numbers of elements and the primaries of arrays of one shape and type, accumulated in float64.

    On a TPU they are accumulated in float32.

    Shape:
        arrays: any; result: ``(len(arrays), 1 + len(primaries))``.
    Not a number:
        ``min`` and ``max`` are those of the finite elements, if there are any; the rest as in IEEE 754.
    """
    with compatibility.enable_x64(True):
        stack = _stack(arrays)
        wide = lax.convert_element_type(lax.abs(stack) if stack.dtype.kind == "c" else stack, wide_type())
        names = dict.fromkeys(term for primary in primaries for term in _TERMS_OF[primary])
        terms = [_TERMS[name] for name in names]
        totals = dict(zip(names, _reduce([term.of(wide) for term in terms], terms), strict=True))
        size = _numbers(arrays[0].size, len(arrays))
        return _columns([size, *(_primary(primary, size, totals) for primary in primaries)])


def change_ratios(weights: Sequence[Any], others: Sequence[Any], *, is_sum: bool) -> Any:
    """Return the norms of the changes of weights by their norms: infinite where only the weight is 0.

    Args:
        others: What is added to the weights, or what they are afterwards.
        is_sum: Whether it is added; the number of its elements, and of those that are 0, are returned as well.

    Shape:
        weights, others: arrays of one shape; result: ``(len(weights), 1)``, of sums ``(len(weights), 3)``.
    """
    old, new = _stack(weights), _stack(others)
    if is_sum:
        new = lax.convert_element_type(old + new, old.dtype)
    with compatibility.enable_x64(True):
        before, now = (lax.convert_element_type(stack, wide_type()) for stack in (old, new))
        squares = _TERMS["squares"]
        totals = _reduce([squares.of(lax.sub(now, before)), squares.of(before)], [squares, squares])
        change, norm = (lax.sqrt(total) for total in totals)
        zero = _numbers(0, len(weights))
        nothing = lax.select(lax.eq(change, zero), change, _numbers(np.inf, len(weights)))
        ratios = _columns([lax.select(lax.eq(norm, zero), nothing, lax.div(change, norm))])
        return lax.concatenate([ratios, summarize(others, ("zeros",))], 1) if is_sum else ratios


def marked(rows: Any) -> Any:
    """Return rows of numbers, each beginning with the mark of values that were computed.

    Shape:
        rows: ``(n, m)``; result: ``(n, 1 + m)``.
    """
    with compatibility.enable_x64(True):
        return lax.concatenate([_columns([_numbers(1, len(rows))]), rows], 1)


def always() -> Any:
    """Return the mark of values that were computed, as ``(1,)``."""
    with compatibility.enable_x64(True):
        return _numbers(1, 1)


def joined(rows: Sequence[Any]) -> Any:
    """Return all numbers of some rows one after the other."""
    with compatibility.enable_x64(True):
        return lax.concatenate([lax.reshape(row, (row.size,)) for row in rows], 0)


def wide_type() -> Any:
    """Return the type in which statistics are computed."""
    return np.dtype("float32" if jax.default_backend() == "tpu" else "float64")


def _stack(arrays: Sequence[Any]) -> Any:
    """Return arrays of one shape and type as one with a first axis more."""
    return lax.concatenate([lax.reshape(array, (1, *array.shape)) for array in arrays], 0)


def _numbers(value: float, count: int) -> Any:
    return lax.full((count,), value, wide_type())


def _columns(columns: Sequence[Any]) -> Any:
    return lax.concatenate([lax.reshape(column, (len(column), 1)) for column in columns], 1)


class _Term(NamedTuple):
    """A reduction over all elements of arrays; they are stacked along the first axis."""

    of: Callable[[Any], Any]
    start: float
    operation: Callable[[Any, Any], Any]


def _finite(wide: Any, otherwise: float) -> Any:
    return lax.select(lax.is_finite(wide), wide, lax.full_like(wide, otherwise))


def _shifted(wide: Any) -> Any:
    """Return the differences from the first element of the array."""
    if not wide.size:
        return wide
    count = wide.shape[0]
    first = lax.reshape(lax.slice(wide, (0,) * wide.ndim, (count, *(1,) * (wide.ndim - 1))), (count,))
    return lax.sub(wide, lax.broadcast_in_dim(first, wide.shape, (0,)))


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
    """Return the total of each term from its values at all elements of each array.

    All terms are reduced together, since XLA stores the converted array once per term otherwise. The first axis of the
    arrays is reduced last, since XLA computes a reduction to a single number in one thread.

    Shape:
        values: ``(n, *shape)``; result: ``(n,)``.
    """

    def combine(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
        return [term.operation(a, b) for term, a, b in zip(terms, one, other, strict=True)]

    starts = [lax.full((), term.start, wide_type()) for term in terms]
    for axes in (tuple(range(2, values[0].ndim)), (1,)) if terms and values[0].ndim > 1 else ():
        values = lax.reduce(values, starts, combine, axes)
    return list(values)


def _primary(name: str, size: Any, totals: Mapping[str, Any]) -> Any:
    match name:
        case "min":
            return _extreme(totals, totals["finite_min"], totals["lowest"])
        case "max":
            return _extreme(totals, totals["finite_max"], totals["highest"])
        case "abs_min":
            return _extreme(totals, totals["finite_abs_min"], lax.full_like(size, np.inf))
        case "centred":
            return _centred(size, totals["shifted"], totals["shifted_squares"])
        case "nonfinite_count":
            return lax.sub(size, totals["finite"])
        case _:
            return totals[_TERMS_OF[name][0]]


def _centred(size: Any, shifted: Any, squares: Any) -> Any:
    """Return the sum of squared distances from the mean, from sums of the differences from the first element.

    Since the first element is one of the sample, the square of its distance from the mean is at most ``size`` times the
    variance: the difference below loses at most the digits of ``size``.
    """
    centred = lax.sub(squares, lax.div(lax.mul(shifted, shifted), size))
    return lax.max(centred, lax.full_like(centred, 0))


def _extreme(totals: Mapping[str, Any], of_finite: Any, of_all: Any) -> Any:
    nans, finite = totals["nans"], totals["finite"]
    otherwise = lax.select(lax.gt(nans, lax.full_like(nans, 0)), lax.full_like(nans, np.nan), of_all)
    return lax.select(lax.gt(finite, lax.full_like(finite, 0)), of_finite, otherwise)
