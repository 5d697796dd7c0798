"""A copy of a model that is evaluated by running averages of the start."""

from __future__ import annotations

from typing import Final

from leadline.records.names import UNMOVED_AVERAGES
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(UNMOVED_AVERAGES)


def note(known: dict[str, int], window: Window) -> None:
    """Note how many batch normalizations of a copy have averages of the start, by the name of the copy."""
    for reading in window.readings("value"):
        name, _, check = reading.tensor.rpartition("/")
        if check == UNMOVED_AVERAGES:
            known[name] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on the first such copy; empty: there is none."""
    for name, layers in known.items():
        if layers:
            return (
                f"another model ({name}), whose weights change, too, is evaluated with running averages of exactly 0 "
                f"and 1, as at the start, in {layers:,} of its normalizations, where the trained model has others: an "
                "average of weights that leaves out the buffers; copy these at each update, as AveragedModel does"
            )
    return ""
