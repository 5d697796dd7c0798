"""Several statistics of an array in one pass, equal to those of ``leadline.statistics.arrays`` up to rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.statistics.arrays import compute, sum_of_squares
from leadline.statistics.arrays import update_ratio as reference_update_ratio
from leadline.statistics.definitions import find_statistic, primaries
from leadline.statistics.derivations import Derivation

Array = npt.NDArray[Any]

_CHUNK: Final = 1 << 15
"""Elements that are widened to float64 at a time: they fit in a processor's cache."""
_PRIMARIES: Final = frozenset(
    {"min", "max", "sum", "l1", "squares", "centred", "zeros", "nan_count", "nonfinite_count"}
)
"""What is computed in one pass."""
_NARROW: Final = frozenset({"float16", "float32"})
"""Types of which no sum of squares exceeds the range of float64."""


def compute_all(names: Sequence[str], values: Array, before: Array | None = None) -> list[float]:
    """Compute several statistics of an array exactly, accumulated in float64.

    Shape:
        values: any ``(*shape,)``; result: one number per name.
    Units, not a number:
        Those of ``leadline.statistics.arrays.compute``.
    Args:
        before: For statistics of a change: the array before it.
    Raises:
        UnknownNameError, KeyError: As ``leadline.statistics.arrays.compute``.
    """
    quick, needed = _in_one_pass(tuple(names))
    if len(quick) < 2 or not values.size or values.dtype.name not in _NARROW:
        return [compute(name, values, before) for name in names]
    known = _primaries_of(values.reshape(-1), has_spread="centred" in needed)
    if not math.isfinite(known["squares"]):
        return [compute(name, values, before) for name in names]
    return [quick[name].compute(_Scalars, known) if name in quick else compute(name, values, before) for name in names]


class _Scalars:
    """A namespace for derivations from finite numbers: NumPy's functions take several times as long for one."""

    sqrt = staticmethod(math.sqrt)
    maximum = staticmethod(max)


@lru_cache(maxsize=256)
def _in_one_pass(names: tuple[str, ...]) -> tuple[dict[str, Derivation], frozenset[str]]:
    """Return the derivations of the statistics that are computed in one pass, and the primaries that they need."""
    derivations = {name: find_statistic(name).derivation for name in names}
    quick = {name: found for name, found in derivations.items() if found and _PRIMARIES.issuperset(found.primaries)}
    return quick, primaries(frozenset(quick))


def l2_of(values: Array) -> float:
    """Return the square root of the sum of squares; as ``compute("l2", values)``."""
    if values.dtype.name not in _NARROW or not values.size:
        return compute("l2", values)
    flat, squares = values.reshape(-1), 0.0
    with np.errstate(all="ignore"):
        for at in range(0, flat.size, _CHUNK):
            wide = flat[at : at + _CHUNK].astype(np.float64)
            squares += sum_of_squares(wide)
    return math.sqrt(squares) if squares == squares else squares


def update_ratio(before: Array, after: Array) -> float:
    """Return the norm of an update, relative to the norm before it; see ``leadline.statistics.arrays.update_ratio``."""
    if before.dtype.name not in _NARROW:
        return reference_update_ratio(before, after)
    first, second, changes, squares = before.reshape(-1), after.reshape(-1), 0.0, 0.0
    with np.errstate(all="ignore"):
        for at in range(0, first.size, _CHUNK):
            wide = first[at : at + _CHUNK].astype(np.float64)
            squares += sum_of_squares(wide)
            wide -= second[at : at + _CHUNK]
            changes += sum_of_squares(wide)
    if squares == 0.0:
        return 0.0 if changes == 0.0 else changes * math.inf
    return math.sqrt(changes / squares) if changes == changes and squares < math.inf else math.nan


def _primaries_of(flat: Array, *, has_spread: bool) -> dict[str, float]:
    """Return the number of elements and the primaries; if ``squares`` is not finite, they are not reliable."""
    size, zeros = flat.size, 0
    total = absolute = squares = spread = 0.0
    low, high = math.inf, -math.inf
    with np.errstate(all="ignore"):
        for at in range(0, size, _CHUNK):
            narrow = flat[at : at + _CHUNK]
            wide = narrow.astype(np.float64)
            part = float(wide.sum())
            squares += sum_of_squares(wide)
            absolute += float(np.abs(narrow).sum(dtype=np.float64))
            low, high = min(low, float(narrow.min())), max(high, float(narrow.max()))
            zeros += int(np.count_nonzero(narrow == 0))
            if has_spread:
                spread += _spread(wide, part, total, at)
            total += part
    return {
        "size": size,
        "sum": total,
        "l1": absolute,
        "squares": squares,
        "centred": spread,
        "min": low,
        "max": high,
        "zeros": zeros,
        "nan_count": 0.0,
        "nonfinite_count": 0.0,
    }


def _spread(wide: npt.NDArray[np.float64], part: float, total: float, seen: int) -> float:
    """Return what a chunk adds to the sum of squared distances from the mean.

    Args:
        wide: The chunk; it is overwritten.
        part: Its sum.
        total: The sum of the elements before it.
        seen: Their number.
    Source:
        Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    size = wide.size
    mean = part / size
    wide -= mean
    own = sum_of_squares(wide)
    if not seen:
        return own
    distance = mean - total / seen
    return own + distance * distance * seen * size / (seen + size)
