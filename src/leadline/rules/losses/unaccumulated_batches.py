"""Batches with an update each, although gradients are to be accumulated over several."""

from __future__ import annotations

from typing import Final

from leadline.records.names import UNACCUMULATED
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(*UNACCUMULATED)
_MIN_BATCHES: Final = 8


def note(known: dict[str, int], window: Window) -> None:
    """Note over how many batches gradients are to be accumulated, and how many batches had an update of their own."""
    for reading in window.readings("value"):
        check = reading.tensor.rpartition("/")[2]
        if check in UNACCUMULATED:
            known[check] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on such batches; empty: there are none, or too few."""
    steps, batches = (known.get(check, 0) for check in UNACCUMULATED)
    if batches < max(steps, _MIN_BATCHES):
        return ""
    return (
        f"Accelerate is to accumulate gradients over {steps:,} batches (gradient_accumulation_steps), but "
        f"accelerator.accumulate was never entered: all of the first {batches:,} batches had an update of their own, "
        f"with a loss divided by {steps:,}, and a schedule made for updates is over {steps:,} times as early; enter "
        "it around what is done for a batch"
    )
