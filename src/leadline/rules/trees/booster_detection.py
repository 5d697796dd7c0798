"""Telling what boosted trees give from what networks give, so that advice fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leadline.records.loss_roles import TRAINING_SET, VALIDATION_SET
from leadline.records.names import TREE_COLLECTIONS

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading

LABELS: Final = "labels"
"""What a booster's labels are called; a network's are called after the module that is given them."""
PREDICTIONS: Final = "predictions"
_COLLECTIONS: Final = TREE_COLLECTIONS | {TRAINING_SET, VALIDATION_SET}


def is_of_booster(reading: TensorReading) -> bool:
    """Whether a reading is of a booster: its trees, importances, losses by set, labels or predictions."""
    return reading.tensor in (LABELS, PREDICTIONS) or not _COLLECTIONS.isdisjoint(reading.collections)
