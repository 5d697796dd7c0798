"""How much the updates change the weights of a model."""

from __future__ import annotations

import math
from statistics import median
from typing import Final

from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed("weights", statistics=("update_ratio",), modes=("train",), is_optional=True)


def note_ratios(known: dict[str, float], window: Window) -> None:
    """Note the median of the update ratios of each worker's weights, if it is the largest so far."""
    by_worker: dict[str, list[float]] = {}
    for reading in window.readings("update_ratio"):
        if math.isfinite(reading.value):
            by_worker.setdefault(reading.worker, []).append(reading.value)
    for worker, ratios in by_worker.items():
        known[worker] = max(median(ratios), known.get(worker, 0.0))
