"""Sums of counts by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.float64]


def add_counts(counts: Counts | None, more: Counts) -> Counts:
    """Return the sum of two counts by class.

    Shape:
        counts, more: ``(classes,)`` or ``(classes, classes)``, each with the classes seen so far; result: with
        the larger number of classes.
    Units:
        Counts.
    Not a number:
        Counts are never NaN.
    """
    if counts is None:
        return more
    import numpy as np

    total = np.zeros(tuple(map(max, counts.shape, more.shape)))
    for addend in (counts, more):
        total[tuple(slice(length) for length in addend.shape)] += addend
    return total
