"""Adding up what was counted of classes, step after step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.float64]


def added(counts: Counts | None, more: Counts) -> Counts:
    """The sum of two counts, by class.

    Shape:
        counts, more: ``(classes,)`` or ``(classes, classes)``, each with as many classes as were met; result: with
        the larger number of them.
    Units:
        Counts.
    Not a number:
        There is none among counts.
    """
    if counts is None:
        return more
    import numpy as np

    total = np.zeros(tuple(map(max, counts.shape, more.shape)))
    for each in (counts, more):
        total[tuple(slice(length) for length in each.shape)] += each
    return total
