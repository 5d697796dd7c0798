"""The rule rising_validation_loss."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar, Final

from leadline.records.formatting import significant
from leadline.records.loss_rise import OVERFITTING_RISE, relative_rise
from leadline.records.loss_roles import role_of
from leadline.records.metric_names import PRINTED, is_upward, kind_of, printed_resolution, stem_of
from leadline.records.names import CHECKS
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    Rule,
    Severity,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.losses.evaluations import Mean
from leadline.rules.messages import fired
from leadline.rules.robust import NORMAL_MAD, mad, mann_kendall

_MODES: Final = ("train", "eval", "global")
_LATEST: Final = 5
"""Evaluations whose median is the level of the loss now."""
_SMOOTHED: Final = 3
"""Evaluations whose mean is the level of the loss at its best: the lowest single one is low by chance, too."""
_MIN_EVALUATIONS: Final = _LATEST + _SMOOTHED
_KEPT: Final = 101
"""The latest evaluations, which tell the noise."""
_NOISES: Final = 5.0
"""The lowest of a hundred means of three is below their mean by 1.5 of the noise of one evaluation, and the median of
five varies by 0.6 of it; the rest is for noise that is not normal, or lasts for some evaluations."""
_P: Final = 0.05
"""Significance of a rise of an accuracy."""
_FALL: Final = 0.1
"""The share by which the training loss must have fallen meanwhile, or the error that a metric leaves."""
_SUGGESTION: Final = Advice(
    "the checkpoint of step {step}, early stopping on the validation loss, or more regularization (dropout, "
    "weight_decay, augmentation); usually the model is large for its data, or the two sets differ",
    "step",
)
_SUGGESTION_OF_TREES: Final = Advice(
    "the model of round {step}, early stopping on this set (if it is on, it watches another one), a smaller max_depth "
    "or eta, or subsample below 1; usually the trees are deep for so few samples, or the two sets differ",
    "step",
)
_Key = tuple[str, str]


@dataclass(slots=True)
class _Evaluation:
    step: int
    """The train step before it."""
    loss: float
    training: float
    """The mean training loss since the evaluation before it; NaN: none was captured."""


@dataclass(slots=True)
class _Course:
    """A validation loss over the evaluations that have ended."""

    tensor: str
    is_of_trees: bool
    is_metric: bool = False
    """Whether it is a metric that stands for a validation loss."""
    resolution: float = math.inf
    """The unit of the last decimal of printed values; infinite: none was printed."""
    current: Mean = field(default_factory=Mean)
    training: float = math.nan
    """The mean training loss before the current evaluation."""
    count: int = 0
    first: float = -math.inf
    """The larger of the first training loss and the first evaluation: where learning began."""
    latest: deque[_Evaluation] = field(default_factory=lambda: deque(maxlen=_KEPT))
    level: float = math.inf
    """The lowest mean of three evaluations in a row."""
    best: _Evaluation | None = None
    """The best of those three."""
    best_count: int = 0
    """The number of evaluations up to those three."""

    def end(self) -> None:
        """End the current evaluation."""
        self.count += 1
        self.first = max(self.first, self.current.value) if self.count == 1 else self.first
        self.latest.append(_Evaluation(self.current.step, self.current.value, self.training))
        three = list(self.latest)[-_SMOOTHED:]
        level = sum(evaluation.loss for evaluation in three) / _SMOOTHED
        if len(three) == _SMOOTHED and level < self.level:
            self.level, self.best = level, min(three, key=lambda evaluation: evaluation.loss)
            self.best_count = self.count
        self.current = Mean()

    def now(self) -> float:
        """Return the level of the latest evaluations."""
        return median([evaluation.loss for evaluation in list(self.latest)[-_LATEST:]])

    def noise(self) -> float:
        """Return the standard deviation of an evaluation about its trend."""
        losses = [evaluation.loss for evaluation in self.latest]
        steps = [after - before for before, after in pairwise(losses)]
        small_sample = 1 + _SMOOTHED / len(steps)
        noise = small_sample * NORMAL_MAD * mad(steps, median(steps)) / math.sqrt(2)
        return max(noise, self.resolution) if math.isfinite(self.resolution) else noise

    def has_risen(self) -> bool:
        """Return whether the loss is above its best for long, by far more than evaluations vary."""
        after = self.count - self.best_count
        if after < max(_LATEST, self.best_count / 2):
            return False
        lowest = min(evaluation.loss for evaluation in list(self.latest)[-max(_LATEST, after // 2) :])
        gained = max(self.first - self.level, 0.0)
        is_large = relative_rise(lowest, self.level) > OVERFITTING_RISE
        is_lost = lowest - self.level > OVERFITTING_RISE * gained
        return is_large and is_lost and self.now() - self.level > _NOISES * self.noise()

    def is_training_falling(self) -> bool:
        """Return whether the training loss has fallen since the best validation loss; that of boosted trees always."""
        if self.is_of_trees:
            return True
        before = self.best.training if self.best is not None else math.nan
        return before - self.latest[-1].training > _FALL * abs(before)


@dataclass(slots=True)
class _Metric:
    """A validation metric of which more is better."""

    current: Mean = field(default_factory=Mean)
    values: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """The train step and the mean of evaluations."""

    def is_rising(self, since: int) -> bool:
        """Return whether it has risen by a part of what it lacks at the best loss that matters."""
        values = [value for step, value in self.values if step >= since]
        if len(values) < _LATEST or mann_kendall(values).p_of_rising() >= _P:
            return False
        before, now = median(values[:_SMOOTHED]), median(values[-_LATEST:])
        most = next((most for most in (1.0, 100.0) if now <= most), 0.0)
        return now - before > _FALL * abs(most - before)


@dataclass(slots=True)
class _Known:
    """The run so far."""

    courses: dict[_Key, _Course] = field(default_factory=dict)
    """By worker and the name that training and validation share."""
    training: dict[_Key, Mean] = field(default_factory=dict)
    metrics: dict[_Key, _Metric] = field(default_factory=dict)
    ended: list[_Key] = field(default_factory=list)
    """The losses whose evaluation has ended with the latest window."""

    def read_training(self, key: _Key) -> Mean:
        """Return a training loss since the last evaluation: that of the same name, or the only one."""
        of_worker = [mean for (worker, _), mean in self.training.items() if worker == key[0]]
        mean = self.training.get(key) or (of_worker[0] if len(of_worker) == 1 else None)
        if mean is None:
            return Mean()
        mean.is_read = True
        return mean


class RisingValidationLoss(Rule, frozen=True, kw_only=True):
    """Fires when a validation loss has risen well above its best while the training loss goes on falling: overfitting.

    Why it matters:
        From its best validation on, the model learns its training examples by heart: what is trained after that makes
        it worse on new data, and the time is wasted.
    How it decides:
        An evaluation is the mean of a validation loss between two phases of training; the last one of a run is left
        out, since its end is not known. The best level is the lowest mean of 3 evaluations in a row, the level now the
        median of the last 5. Fires if the best is at least 5 evaluations ago, and at least half as many as led to it,
        the level has risen by more than 5 standard deviations of an evaluation (the median absolute deviation of the
        differences between evaluations, divided by the square root of 2), each of the latest half of the evaluations
        since the best, at least 5, is above it by more than 10 % of it and by more than 10 % of what the loss had
        fallen since the first training loss or evaluation, whichever is larger, and the mean training loss between
        evaluations has fallen by more than 10 % meanwhile (that of boosted trees always falls). Clear if a validation
        metric of which more is better, such as an accuracy, has risen since the best loss, by the Mann-Kendall test at
        0.05, and by more than 10 % of what it lacked then to 1 (or to 100). Where no validation loss is captured, a
        logged or printed metric of validation data of which less is better (``val_rmse``) stands for it; what it had
        fallen counts from its first evaluation. The deviation of printed values is at least the unit of their last
        decimal.
    Not a number:
        NaN and infinity are left out (see ``exploding_tensor``).
    Blind spots:
        Fewer than 8 evaluations are not evaluated. Without a training loss between the evaluations it is undecided. A
        training that early stopping ends within 5 evaluations, or within half of those that led to its best, is clear.
        A script that evaluates different sets in turn has noise, not a trend.
    Source:
        Prechelt, "Early stopping - but when?", 1998, for the loss relative to its best; the noise is ours.
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("overfit", "overtraining")

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=_MODES),
                TensorNeed("metrics", statistics=("value",), modes=_MODES, is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        known.ended = []
        if window.mode == "train":
            for key, course in known.courses.items():
                _end_before(known, key, course, window.step)
        readings = sorted(_readings(window), key=lambda found: found[0])  # training before validation
        for role, key, reading in readings:
            if role == "validation":
                _add_validation(known, key, reading, window.step)
            elif "losses" in reading.collections:
                known.training.setdefault(key, Mean()).add(reading.value)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: _Known = window.memory
        if not known.courses:
            return Undecided("no validation loss was seen")
        if not known.ended:
            return Undecided("no evaluation has ended at this step")
        has_loss = any(not course.is_metric for course in known.courses.values())
        ended = {key: known.courses[key] for key in known.ended if not (has_loss and known.courses[key].is_metric)}
        if not ended:
            return Undecided("no evaluation of a validation loss has ended at this step")
        for key, course in ended.items():
            if course.count >= _MIN_EVALUATIONS and course.has_risen() and course.is_training_falling():
                metrics = [metric for (worker, _), metric in known.metrics.items() if worker == key[0]]
                if course.best is not None and not any(metric.is_rising(course.best.step) for metric in metrics):
                    return _fired(key, course, course.best)
        evaluated = [course for course in ended.values() if course.is_of_trees or _has_training(course)]
        if not evaluated:
            return Undecided("no training loss was captured between the evaluations")
        longest = max(course.count for course in evaluated)
        if longest < _MIN_EVALUATIONS:
            return Undecided(
                f"too short: {longest:,} of {_MIN_EVALUATIONS:,} evaluations, the last one left out", stage="too few"
            )
        return Clear()


def _has_training(course: _Course) -> bool:
    return not math.isnan(course.latest[-1].training)


def _readings(window: Window) -> Iterator[tuple[str, _Key, TensorReading]]:
    """Yield the finite losses and metrics: role, worker and shared name, reading."""
    for reading in window.readings("value"):
        if math.isfinite(reading.value) and CHECKS not in reading.collections:
            role, stem = role_of(reading.tensor, reading.mode, reading.collections)
            yield role, (reading.worker, stem), reading


def _add_validation(known: _Known, key: _Key, reading: TensorReading, step: int) -> None:
    is_loss = "losses" in reading.collections and not is_upward(reading.tensor)
    if is_loss or _may_stand_for_loss(reading):
        course = known.courses.setdefault(key, _Course(reading.tensor, is_from_booster(reading), not is_loss))
        course.is_metric = course.is_metric and not is_loss
        _end_before(known, key, course, step)
        if PRINTED in reading.collections:
            course.resolution = min(course.resolution, printed_resolution(reading.value))
        if not course.current.count:
            training = known.read_training(key)
            course.current.step, course.training = step, training.value
            if not course.count and training.count and is_loss:
                course.first = training.first
        course.current.add(reading.value)
    elif is_upward(reading.tensor):
        metric = known.metrics.setdefault(key, _Metric())
        if metric.current.count and metric.current.step != step:
            metric.values.append((metric.current.step, metric.current.value))
            metric.current = Mean()
        metric.current.step = step
        metric.current.add(reading.value)


def _may_stand_for_loss(reading: TensorReading) -> bool:
    """Return whether a number is surely a metric of validation data of which less is better: ``val_rmse``."""
    name = reading.tensor
    is_validation = kind_of(name) == "metric" and stem_of(name)[0] == "validation"
    return "metrics" in reading.collections and is_validation and is_upward(name) is False


def _end_before(known: _Known, key: _Key, course: _Course, step: int) -> None:
    """End an evaluation after which the training has gone on."""
    if course.current.count and course.current.step < step and key not in known.ended:
        course.end()
        known.ended.append(key)


def _fired(key: _Key, course: _Course, best: _Evaluation) -> Fired:
    now, training = course.now(), course.latest[-1].training
    unit = "round" if course.is_of_trees else "step"
    is_named = course.is_of_trees or course.tensor != key[1]
    name = course.tensor if is_named else "validation loss"
    message = f"overfitting since {unit} {best.step:,}: {name} {significant(best.loss)} → {significant(now)}"
    if not course.is_of_trees:
        message += f", while the training loss fell from {significant(best.training)} to {significant(training)}"
    return fired(
        message,
        course.tensor,
        advice=(_SUGGESTION_OF_TREES if course.is_of_trees else _SUGGESTION).given(step=f"{best.step:,}"),
        evidence={
            "best": best.loss,
            "best_step": best.step,
            "now": now,
            "noise": course.noise(),
            "evaluations": course.count,
            "evaluations_since_best": course.count - course.best_count,
            **({} if math.isnan(training) else {"training_loss": training}),
        },
        worker=key[0],
        since_step=best.step,
    )
