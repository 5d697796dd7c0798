"""The primaries: numbers of a tensor that each backend computes, that merge, and that statistics are derived from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from leadline.statistics.definitions import find_statistic
from leadline.statistics.derivations import Derivation

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Primary:
    """A number from which statistics are derived.

    ``min``, ``max`` and ``abs_min`` are those of the finite elements; if no element is finite, those of all elements,
    NaN if one of them is NaN. All others follow IEEE 754.
    """

    name: str
    meaning: str
    merge: np.ufunc = np.add
    """Combines the numbers of two parts of a tensor."""
    start: float = 0.0
    """The number of no elements: combined with another, it changes nothing."""


_ALL: Final = (
    Primary("size", "number of elements"),
    Primary("sum", "sum of the elements"),
    Primary("l1", "sum of absolute values"),
    Primary("squares", "sum of squares"),
    Primary("centred", "sum of squared distances from the mean; merging it takes ``size`` and ``sum``"),
    Primary("min", "smallest element", np.fmin, np.inf),
    Primary("max", "largest element", np.fmax, -np.inf),
    Primary("abs_min", "smallest absolute value", np.fmin, np.inf),
    Primary("prod", "product of the elements", np.multiply, 1.0),
    Primary("zeros", "number of elements that are exactly zero"),
    Primary("nan_count", "number of NaN elements"),
    Primary("nonfinite_count", "number of NaN or infinite elements"),
    Primary("change_squares", "sum of the squares of the changes since the previous capture"),
)
PRIMARIES: Final[dict[str, Primary]] = {primary.name: primary for primary in _ALL}
"""The primaries with a fixed name; ``find_primary`` creates the counts of families of shares."""


def find_primary(name: str) -> Primary:
    """Return the primary of a name: a count of matching elements has the name of the statistic, such as ``equals_0``.

    Raises:
        UnknownNameError: There is neither a primary nor a statistic of that name.
    """
    return PRIMARIES.get(name) or Primary(name, find_statistic(name).meaning)


def derive(statistics: Sequence[str], primaries: Mapping[str, Floats]) -> list[Floats]:
    """Derive statistics of many tensors from their primaries.

    Shape:
        primaries: ``size`` and what the statistics need, each ``(tensors,)``; results: ``(tensors,)`` each.
    Not a number:
        As in the statistics' definitions; NaN for an empty tensor, 0 for counts.
    """
    size = primaries["size"]
    has_empty = not size.all()
    with np.errstate(all="ignore"):
        found = [_derivation(name).compute(np, primaries) for name in statistics]
    if not has_empty:
        return found
    return [
        values if find_statistic(name).unit == "count" else np.where(size > 0, values, np.nan)
        for name, values in zip(statistics, found, strict=True)
    ]


def _derivation(name: str) -> Derivation:
    derivation = find_statistic(name).derivation
    if derivation is None:
        raise KeyError(f"{name} is not derived from primaries")
    return derivation


def merge(parts: Mapping[str, Floats], starts: npt.NDArray[np.intp]) -> dict[str, Floats]:
    """Merge the primaries of adjacent parts into those of whole tensors.

    Shape:
        parts: ``size`` and further primaries, each ``(parts,)``; starts: the first part of each tensor, ``(tensors,)``,
        none without a part; results: ``(tensors,)`` each.
    Not a number:
        Extrema ignore parts that have NaN instead.
    Source:
        For ``centred``: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
        Variances", 1979.
    """
    with np.errstate(all="ignore"):
        merged: dict[str, Floats] = {
            name: find_primary(name).merge.reduceat(values, starts) for name, values in parts.items()
        }
        if "centred" in parts:
            sizes = parts["size"]
            means = merged["sum"] / merged["size"]
            off = parts["sum"] / sizes - np.repeat(means, np.diff([*starts, len(sizes)]))
            merged["centred"] += np.add.reduceat(sizes * off * off, starts)
    return merged


def merge_statistic(name: str, sizes: Sequence[float], captured: Sequence[Mapping[str, float]]) -> float | None:
    """Merge a statistic of parts of a tensor into that of the whole.

    Args:
        sizes: The number of elements of each part, above 0.
        captured: The statistics that are known of each part, this one included.
    Returns:
        None: it does not merge. Those derived from ``centred`` merge if sums or means are known as well.
    """
    derivation = find_statistic(name).derivation
    if derivation is None:
        return None
    parts = {"size": np.array(sizes, np.float64)}
    with np.errstate(all="ignore"):
        if derivation.invert is not None:
            values = np.array([part[name] for part in captured], np.float64)
            parts |= zip(derivation.primaries, derivation.invert(values, parts["size"]), strict=True)
        for primary in (*derivation.primaries, *(_MERGED_WITH if "centred" in derivation.primaries else ())):
            if primary not in parts:
                known = [_invert(primary, part, size) for part, size in zip(captured, sizes, strict=True)]
                if None in known:
                    return None
                parts[primary] = np.array(known, np.float64)
        return float(derive((name,), merge(parts, np.zeros(1, np.intp)))[0][0])


_MERGED_WITH: Final = ("sum",)
"""What it takes to merge ``centred``."""


def _invert(primary: str, captured: Mapping[str, float], size: float) -> float | None:
    """Return a primary from a statistic that is derived from it alone; None if there is none."""
    for name, value in captured.items():
        derivation = find_statistic(name).derivation
        if derivation is not None and derivation.primaries == (primary,) and derivation.invert is not None:
            return float(derivation.invert(value, size)[0])
    return None
