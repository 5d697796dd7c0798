"""Percentages of the samples, for each unit of a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_DIGITS: Final = 5


def unit_percentages(shares: Floats) -> Floats:
    """Convert shares to percentages, rounded to five digits against errors of single precision.

    Shape:
        shares, result: ``(units,)``.
    Units:
        Ratios in, percent out.
    Not a number:
        NaN in, NaN out.
    """
    return (shares * 100.0).round(_DIGITS)
