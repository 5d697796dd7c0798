"""A tensor that a model adds to itself."""

from __future__ import annotations

from typing import Final

from leadline.records.formatting import counted
from leadline.records.loss_facts import ADDED_TO_ITSELF, FACT_STEPS
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(ADDED_TO_ITSELF, end=FACT_STEPS)


def note(known: dict[str, int], window: Window) -> None:
    """Note how often the output of a layer is added to itself, by the name of the layer."""
    for reading in window.readings("value"):
        name, _, check = reading.tensor.rpartition("/")
        if check == ADDED_TO_ITSELF:
            known[name] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on these layers; empty: there is none."""
    if not known:
        return ""
    name, more = next(iter(known)), len(known) - 1
    others = f", and that of {counted(more, 'more layer')}," if more else ""
    return (
        f"what {name} computes{others} is added to itself (x + x): a residual connection adds the input of the layer, "
        "which is lost here; right if it is to be doubled"
    )
