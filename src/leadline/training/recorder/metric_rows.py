"""Rows of steps that record nothing but scores: their layout is known from an earlier step."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.frameworks.scores import Scores
from leadline.records.series import SeriesLayout
from leadline.training.recorder.mode_schedules import ModeSchedules
from leadline.training.recorder.scalars import LossBuffer, Scalar


@dataclass(frozen=True, slots=True)
class MetricRow:
    """The mapping of the scores of a step to its row."""

    scores: Scores
    version: int
    """The version of the budget for which it is valid."""
    layout: SeriesLayout
    names: frozenset[str]
    losses: tuple[tuple[str, int], ...]
    """Each loss with the index of its score."""
    value_indices: tuple[int, ...]
    """For each column the index of its score; -1 for the count of a loss."""

    form: struct.Struct

    def pack(self, values: Sequence[float]) -> bytes:
        """Return one float64 per column."""
        return self.form.pack(*[1.0 if index < 0 else values[index] for index in self.value_indices])


def metric_row(
    scores: Scores,
    scalars: Mapping[str, Scalar],
    layout: SeriesLayout,
    losses: LossBuffer,
    schedules: ModeSchedules,
    version: int,
) -> MetricRow | None:
    """Derive the mapping from a step that was recorded in full.

    Args:
        scalars: The scalars of the step.
        layout: The layout of their row.
    Returns:
        None if the step has other scalars, or not all scores are captured at every step.
    """
    named: dict[str, int] = {}
    for index, score in enumerate(scores):
        name = losses.name(score.name) if score.is_loss else _metric_name(score.name, scalars)
        if name is None or name in named:
            return None
        named[name] = index
    if named.keys() != scalars.keys() or not _are_captured_every_step(scores, schedules):
        return None
    columns = [(layout.tensors[index].name, statistic) for index, statistic in layout.columns]
    if any(statistic not in ("value", "count") for _, statistic in columns):
        return None
    return MetricRow(
        scores,
        version,
        layout,
        frozenset(named),
        tuple((name, index) for name, index in named.items() if scores[index].is_loss),
        tuple(named[name] if statistic == "value" else -1 for name, statistic in columns),
        struct.Struct(f"<{len(columns)}d"),
    )


def _metric_name(name: str, scalars: Mapping[str, Scalar]) -> str | None:
    """Return the name in the row: prefixed with the collection if a loss has the same name."""
    for candidate in (f"metrics/{name}", name):
        if candidate in scalars and scalars[candidate].collection == "metrics":
            return candidate
    return None


def _are_captured_every_step(scores: Scores, schedules: ModeSchedules) -> bool:
    if any(score.is_loss for score in scores) and not schedules.losses.every_step():
        return False
    items, metrics = schedules.scalars.every_step(), frozenset({"metrics"})
    return all(any(item.selects(score.name, metrics) for item in items) for score in scores if not score.is_loss)
