"""What is said of the units of a layer: shares of the samples, as percentages that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_DIGITS: Final = 5


def unit_percentages(shares: Floats) -> Floats:
    """Shares as percentages; what single precision left behind the fifth digit is taken off.

    Shape:
        shares, result: ``(units,)``.
    Units:
        Ratios in, percent out.
    Not a number:
        NaN in, NaN out.
    """
    return (shares * 100.0).round(_DIGITS)
