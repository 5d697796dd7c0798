"""Detection of readings from gradient boosting, for advice that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leadline.records.loss_roles import TRAINING_SET, VALIDATION_SET
from leadline.records.names import TREE_COLLECTIONS

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading

LABELS: Final = "labels"
"""The tensor with the labels of a booster; those of a network are named after the module that takes them."""
PREDICTIONS: Final = "predictions"
_COLLECTIONS: Final = TREE_COLLECTIONS | {TRAINING_SET, VALIDATION_SET}


def is_from_booster(reading: TensorReading) -> bool:
    """Return whether a reading comes from a booster: trees, importances, losses by set, labels or predictions."""
    return reading.tensor in (LABELS, PREDICTIONS) or not _COLLECTIONS.isdisjoint(reading.collections)
