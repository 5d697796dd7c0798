"""Epochs in one order, as a sampler of distributed data shuffles them without another seed."""

from __future__ import annotations

from typing import Final

from leadline.records.names import EPOCHS_IN_ONE_ORDER
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(EPOCHS_IN_ONE_ORDER)
_MIN_EPOCHS: Final = 3


def note(known: dict[str, int], window: Window) -> None:
    """Note the largest number of such epochs of each worker."""
    for reading in window.readings("value"):
        if reading.tensor.endswith(f"/{EPOCHS_IN_ONE_ORDER}"):
            known[reading.worker] = max(known.get(reading.worker, 0), int(reading.value))


def remark(known: dict[str, int]) -> str:
    """Return the remark on epochs in one order; empty: none."""
    epochs = max(known.values(), default=0)
    if epochs < _MIN_EPOCHS:
        return ""
    return (
        f"{epochs} epochs in a row had the same order: the DistributedSampler of the data began each of them with one "
        "epoch number; call its set_epoch(epoch) before each"
    )
