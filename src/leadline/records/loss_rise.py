"""The rise of a validation loss above its minimum."""

from __future__ import annotations

from typing import Final

OVERFITTING_RISE: Final = 0.1
"""A validation loss that ends so much above its minimum, relative to it, shows overfitting."""
_TINY: Final = 1e-300


def relative_rise(last: float, lowest: float) -> float:
    """Return how much the last value is above the lowest, relative to it: 0.58 for 0.79 after 0.5."""
    return (last - lowest) / max(abs(lowest), _TINY)
