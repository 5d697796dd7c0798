"""The latest evaluation of a validation metric, beside what a predictor without input reaches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from leadline.records.formatting import significant
from leadline.records.metric_names import PRINTED, is_upward, printed_resolution
from leadline.records.names import NO_BETTER
from leadline.rules import TensorReading
from leadline.rules.losses.trivial_level import LabelsByCall

MIN_LABELS: Final = 100
"""Fewer labels do not say how often each class occurs."""
MARGIN: Final = 0.02
"""A metric that is better than the trivial level by less than this share of it is no better."""


@dataclass(slots=True)
class LastEvaluation:
    """The values of a validation metric in the latest evaluation."""

    train_step: int
    values: list[float] = field(default_factory=list)
    resolution: float = math.inf
    """The finest unit of a last decimal of printed values so far; infinite: none was printed."""

    def add(self, reading: TensorReading) -> None:
        """Add a value of the evaluation."""
        self.values.append(reading.value)
        if PRINTED in reading.collections:
            self.resolution = min(self.resolution, printed_resolution(reading.value))

    def remark(self, name: str, labels: LabelsByCall) -> str:
        """Return the remark on a metric that is no better than guessing; empty: none."""
        trivial, is_up = labels.level(name), is_upward(name)
        if trivial is None or is_up is None or 0 < labels.labels() < MIN_LABELS:
            return ""
        resolution = self.resolution if math.isfinite(self.resolution) else 0.0
        level, bound = sum(self.values) / len(self.values), trivial.value
        if is_up and level > 1:  # in percent
            level, resolution = level / 100, resolution / 100
        margin = trivial.margin(MARGIN)
        best = level + (resolution if is_up else -resolution) / 2
        is_better = best > bound + margin if is_up else best < bound - margin
        if is_better:
            return ""
        guess = f"{trivial.predictor} ({significant(bound)})"
        return f"{name} of the last validation is {significant(level)}, {NO_BETTER} {guess}"
