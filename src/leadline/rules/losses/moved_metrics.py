"""Which metrics moved away from their level, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from leadline.records.formatting import significant
from leadline.rules.losses.logged_metrics import LoggedMetric
from leadline.rules.robust import NORMAL_MAD, mad

_BLOCKS: Final = 16
"""The blocks of values before a step from which a level and its noise are computed."""
_MIN_BLOCKS: Final = 5
_NOISES: Final = 4.0
"""Robust standard deviations of a block by which it must be away from the level."""
_SHARE: Final = 0.2
"""The share of the level by which it must be away, too."""


@dataclass(frozen=True, slots=True)
class Move:
    """A metric that left its level and was still away from it in the following block."""

    metric: LoggedMetric
    step: int
    """The train step at which the first block begins that is away from the level."""
    level: float

    def __str__(self) -> str:
        now = significant(median(self.metric.values))
        return f"{self.metric.name} from step {self.step:,} ({significant(self.level)} → {now})"


def moves(metrics: Iterable[LoggedMetric], since_step: int) -> list[Move]:
    """Return the metrics that moved after a train step, the first to move first."""
    found = (_move(metric, since_step) for metric in metrics)
    return sorted((move for move in found if move is not None), key=lambda move: move.step)


def _move(metric: LoggedMetric, since_step: int) -> Move | None:
    blocks = list(zip(metric.blocks.begins, metric.blocks.means, strict=True))
    before = [mean for begin, mean in blocks if begin <= since_step][-_BLOCKS:]
    if len(before) < _MIN_BLOCKS:
        return None
    level = median(before)
    least = max(_NOISES * NORMAL_MAD * mad(before, level), _SHARE * abs(level))
    after = [(begin, mean - level) for begin, mean in blocks if begin > since_step]
    away = (begin for (begin, one), (_, next_one) in pairwise(after) if min(abs(one), abs(next_one)) > least)
    step = next(away, None)
    return None if step is None else Move(metric, step, level)
