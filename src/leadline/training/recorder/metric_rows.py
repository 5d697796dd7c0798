"""Steps that leave nothing behind but the same few numbers as the step before: their row is known beforehand."""

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
    """How the numbers of a step become its row."""

    scores: Scores
    version: int
    """Of the budget for which it holds."""
    layout: SeriesLayout
    names: frozenset[str]
    losses: tuple[tuple[str, int], ...]
    """The losses, and where each stands among the numbers."""
    places: tuple[int, ...]
    """Of each column the place of its number; -1: a loss's count."""

    form: struct.Struct

    def pack(self, values: Sequence[float]) -> bytes:
        """One float64 a column."""
        return self.form.pack(*[1.0 if at < 0 else values[at] for at in self.places])


def metric_row(
    scores: Scores,
    taken: Mapping[str, Scalar],
    layout: SeriesLayout,
    losses: LossBuffer,
    dues: ModeSchedules,
    version: int,
) -> MetricRow | None:
    """What a step has shown that was told in full; None: there was something else, or not all is due at every step.

    Args:
        taken: What the step's row was made of.
        layout: The row's.
    """
    named: dict[str, int] = {}
    for at, each in enumerate(scores):
        own = losses.name(each.name) if each.is_loss else _metric(each.name, taken)
        if own is None or own in named:
            return None
        named[own] = at
    if named.keys() != taken.keys() or not _are_always_due(scores, dues):
        return None
    columns = [(layout.tensors[index].name, statistic) for index, statistic in layout.columns]
    if any(statistic not in ("value", "count") for _, statistic in columns):
        return None
    return MetricRow(
        scores,
        version,
        layout,
        frozenset(named),
        tuple((name, at) for name, at in named.items() if scores[at].is_loss),
        tuple(named[name] if statistic == "value" else -1 for name, statistic in columns),
        struct.Struct(f"<{len(columns)}d"),
    )


def _metric(name: str, taken: Mapping[str, Scalar]) -> str | None:
    """What it is called in the row: its collection stands in front where a loss has the name."""
    for each in (f"metrics/{name}", name):
        if each in taken and taken[each].collection == "metrics":
            return each
    return None


def _are_always_due(scores: Scores, dues: ModeSchedules) -> bool:
    if any(each.is_loss for each in scores) and not dues.losses.always():
        return False
    own, metrics = dues.scalars.always(), frozenset({"metrics"})
    return all(any(item.selects(each.name, metrics) for item in own) for each in scores if not each.is_loss)
