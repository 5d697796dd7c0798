"""The rule closing_remarks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.loss_roles import role_of
from leadline.records.names import Severity
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Undecided, Verdict
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.losses.trivial_level import (
    LABEL_STATISTICS,
    LabelDistribution,
    is_upward,
    note_labels,
    trivial_level,
)
from leadline.rules.robust import mann_kendall
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_LABEL_STEPS: Final = 5
_MIN_LABELS: Final = 100
_MIN_LOSSES: Final = 20
_P: Final = 0.01
"""Significance of a fall of the loss in the second half of the updates."""
_FALL: Final = 0.01
"""The share of the loss by which that half must end lower."""
_MARGIN: Final = 0.02
"""A metric that is better than the trivial level by less than this share of it is no better."""
_Key = tuple[str, str]


@dataclass(slots=True)
class _Evaluation:
    """The values of a validation metric in the latest evaluation."""

    train_step: int
    values: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Known:
    """The run so far."""

    updates: int = 0
    losses: dict[_Key, list[float]] = field(default_factory=dict)
    """The first training losses."""
    labels: dict[str, LabelDistribution] = field(default_factory=dict)
    evaluations: dict[_Key, _Evaluation] = field(default_factory=dict)


class ClosingRemarks(Rule, frozen=True, kw_only=True):
    """Never fires: remarks at the end of a run that it was short, or that its validation is no better than guessing.

    Why it matters:
        A model that is judged after a few dozen updates has not been trained yet. A validation accuracy of 95 % is
        nothing if 95 % of the labels are equal.
    How it decides:
        It remarks that there were fewer than ``updates`` train steps, if the last half of at least 20 losses falls (by
        the Mann-Kendall test at a significance of 0.01) and ends more than 1 % lower than it began. It remarks that the
        mean of a validation metric in the last evaluation is not better, by 2 %, than what a predictor without input
        reaches: the entropy of the labels for a cross entropy or negative log likelihood, their variance for a mean
        squared error, the share of the most frequent label for an accuracy. Labels are those of the first 5 train
        steps, at least 100 of them. The remarks follow the outcome of a run without problems.
    Not a number:
        NaN and infinity are left out.
    Blind spots:
        The labels of the validation may be distributed differently. Rounds of boosting are not counted as updates.
        Metrics that the script computes itself are known by their names (``val_acc``).
    Args:
        updates: Train steps below which a training is short, >= 1.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"

    updates: Annotated[int, msgspec.Meta(ge=1)] = 100

    def needs(self) -> Needs:
        modes = ("train", "eval")
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=modes),
                TensorNeed("metrics", statistics=("value",), modes=modes, is_optional=True),
                TensorNeed("labels", statistics=LABEL_STATISTICS, modes=("train",), end=_LABEL_STEPS, is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        note_labels(known.labels, window)
        for reading in window.readings("value"):
            if not math.isfinite(reading.value):
                continue
            role, _ = role_of(reading.tensor, reading.mode, reading.collections)
            if role == "validation":
                self._note_validation(known, reading, window.step)
            elif reading.mode == "train" and "losses" in reading.collections and not is_from_booster(reading):
                known.updates = max(known.updates, reading.mode_step + 1)
                if known.updates <= self.updates:
                    known.losses.setdefault((reading.worker, reading.tensor), []).append(reading.value)
        return known

    def _note_validation(self, known: _Known, reading: TensorReading, train_step: int) -> None:
        key = (reading.worker, reading.tensor)
        evaluation = known.evaluations.get(key)
        if evaluation is None or evaluation.train_step != train_step:
            evaluation = known.evaluations[key] = _Evaluation(train_step)
        evaluation.values.append(reading.value)

    def evaluate(self, window: Window) -> Verdict:
        if not window.readings("value"):
            return Undecided("no loss or metric was captured at this step")
        known: _Known = window.memory
        remarks = [self._of_length(known), *(self._of_validation(known, key) for key in known.evaluations)]
        return Clear({"remarks": [remark for remark in remarks if remark]})

    def _of_length(self, known: _Known) -> str:
        """Return the remark on a short training whose loss still falls; empty: none."""
        if not 0 < known.updates < self.updates or not any(map(_is_falling, known.losses.values())):
            return ""
        return f"the loss was still falling after {known.updates:,} updates, so train for longer to judge the model"

    def _of_validation(self, known: _Known, key: _Key) -> str:
        """Return the remark on a validation metric that is no better than guessing; empty: none."""
        worker, name = key
        labels = known.labels.get(worker, LabelDistribution())
        trivial, is_up = trivial_level(name, labels), is_upward(name)
        if trivial is None or is_up is None or 0 < sum(labels.counts.values()) < _MIN_LABELS:
            return ""
        values = known.evaluations[key].values
        level, (bound, predictor) = sum(values) / len(values), trivial
        if is_up and level > 1:  # in percent
            level /= 100
        margin = _MARGIN * (1 - bound if is_up else bound)
        is_better = level > bound + margin if is_up else level < bound - margin
        if is_better:
            return ""
        return f"{name} of the last validation is {level:.4g}, no better than {predictor} ({bound:.4g})"


def _is_falling(losses: list[float]) -> bool:
    half = losses[len(losses) // 2 :]
    if len(losses) < _MIN_LOSSES or mann_kendall(half).p_of_falling() >= _P:
        return False
    quarter = len(half) // 2
    first, last = sum(half[:quarter]) / quarter, sum(half[-quarter:]) / quarter
    return first - last > _FALL * abs(first)
