"""Indices beyond the table of parameters that they look up."""

from __future__ import annotations

from typing import Final

from leadline.records.names import CLAMPED_INDICES
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(*CLAMPED_INDICES)


def note(known: dict[str, dict[str, float]], window: Window) -> None:
    """Note the look-ups of each such table, those with the largest share."""
    found: dict[str, dict[str, float]] = {}
    for reading in window.readings("value"):
        table, _, check = reading.tensor.rpartition("/")
        if check in CLAMPED_INDICES:
            found.setdefault(table, {})[check] = reading.value
    share = CLAMPED_INDICES[0]
    for table, numbers in found.items():
        if numbers.get(share, 0.0) > known.get(table, {}).get(share, 0.0):
            known[table] = numbers


def remark(known: dict[str, dict[str, float]]) -> str:
    """Return the remark on such a table; empty: there is none."""
    for table, numbers in known.items():
        if numbers.keys() < set(CLAMPED_INDICES):
            continue
        share, different, largest, length = (numbers[check] for check in CLAMPED_INDICES)
        return (
            f"{100 * share:.0f} % of the indices of a step look up rows of {table} at or beyond its length, "
            f"{int(length):,}, up to {int(largest):,}: JAX gives its last row for all {int(different):,} different "
            "ones; number the rows from 0 without gaps, or make the table as long as the largest number plus 1"
        )
    return ""
