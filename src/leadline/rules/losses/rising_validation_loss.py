"""The rule rising_validation_loss."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
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
_FEWEST: Final = 2
"""Evaluations after the best one that are enough at the end of a training, where nothing follows."""
_LARGE: Final = 0.25
"""The share of the best evaluation by which the last one must be above it then."""
_AGAINST: Final = 3.0
"""It must be above it by so many times the largest step against the course: a rise before it, or a fall after it."""
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

    def has_fitted_since(self, before: _Evaluation) -> bool:
        """Return whether the training loss has fallen since another evaluation."""
        return before.training - self.training > _FALL * abs(before.training)


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
    best_count: int = 0
    """The number of evaluations up to those three."""
    lowest: _Evaluation | None = None
    """The best of all."""
    batches: int = 0
    """The values of the latest evaluation that has ended."""

    def end(self) -> None:
        """End the current evaluation."""
        self.count += 1
        self.first = max(self.first, self.current.value) if self.count == 1 else self.first
        ended = self.ongoing()
        self.latest.append(ended)
        self.lowest = ended if self.lowest is None or ended.loss < self.lowest.loss else self.lowest
        level = sum(evaluation.loss for evaluation in list(self.latest)[-_SMOOTHED:]) / _SMOOTHED
        if self.count >= _SMOOTHED and level < self.level:
            self.level, self.best_count = level, self.count
        self.batches, self.current = self.current.count, Mean()

    def ongoing(self) -> _Evaluation:
        """Return the current evaluation as far as it is known."""
        return _Evaluation(self.current.step, self.current.value, self.training)

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
        return self.is_of_trees or (self.lowest is not None and self.latest[-1].has_fitted_since(self.lowest))

    def risen_at_end(self) -> tuple[_Evaluation, _Evaluation] | None:
        """Return the best and the last evaluation of a training of a network that has ended, if it overfits.

        The current one is the last if it is complete. Few are enough where they do not vary: nothing follows.
        """
        is_complete = 0 < self.batches == self.current.count
        evaluations = [*self.latest, *[self.ongoing()] * is_complete]
        if self.is_of_trees or len(evaluations) <= _FEWEST:
            return None
        losses = [evaluation.loss for evaluation in evaluations]
        at = losses.index(min(losses))
        best, last, since = losses[at], losses[-1], losses[at + 1 :]
        if len(since) < max(_FEWEST, (self.count + is_complete - len(since)) / 2):
            return None
        lowest = min(since[-max(1, len(since) // 2) :])
        is_lost = lowest - best > OVERFITTING_RISE * max(self.first - best, abs(best))
        against = [
            before - after if place >= at else after - before for place, (before, after) in enumerate(pairwise(losses))
        ]
        noise = max(0.0, *against, self.resolution if math.isfinite(self.resolution) else 0.0)
        is_large = relative_rise(last, best) > _LARGE and last - best > _AGAINST * noise
        is_fitted = evaluations[-1].has_fitted_since(evaluations[at])
        return (evaluations[at], evaluations[-1]) if is_lost and is_large and is_fitted else None


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
        return _is_better(median(values[:_SMOOTHED]), median(values[-_LATEST:]))

    def has_risen_at_end(self, since: int) -> bool:
        """Return whether that is so of its last value, however few there are."""
        values = [value for step, value in self.values if step >= since]
        values += [self.current.value] if self.current.count else []
        return len(values) > 1 and _is_better(values[0], values[-1])


def _is_better(before: float, now: float) -> bool:
    """Return whether a metric has gained a part of what it lacked to 1, or to 100."""
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

    def compared(self, keys: Iterable[_Key]) -> dict[_Key, _Course]:
        """Return some of the courses: metrics stand for a validation loss only where there is none."""
        has_loss = any(not course.is_metric for course in self.courses.values())
        return {key: self.courses[key] for key in keys if not (has_loss and self.courses[key].is_metric)}

    def metrics_of(self, worker: str) -> list[_Metric]:
        return [metric for (of, _), metric in self.metrics.items() if of == worker]


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
        At the end of a training the last evaluation counts, too, if it has as many batches as the one before, and 2
        evaluations after the best one are enough, at least half as many as led to it, if the last one is above it by
        more than 25 % and by 3 times the largest step against the course (a rise before the best one, a fall after it),
        and each of their latest half by more than 10 % of it and of what the loss had fallen. A metric that has risen
        counts by its last value then.
    Not a number:
        NaN and infinity are left out (see ``exploding_tensor``).
    Blind spots:
        While the training goes on, fewer than 8 evaluations are not evaluated. Without a training loss between the
        evaluations it is undecided. A training that early stopping ends within half of the evaluations that led to its
        best is clear. At the end, 3 to 5 evaluations that vary by 10 % may rise by chance.
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
        ended = known.compared(known.ended)
        if not ended:
            return Undecided("no evaluation of a validation loss has ended at this step")
        for key, course in ended.items():
            if course.count >= _MIN_EVALUATIONS and course.has_risen() and course.is_training_falling():
                best = course.lowest
                if best is not None and not any(metric.is_rising(best.step) for metric in known.metrics_of(key[0])):
                    return _fired(key, course, best, course.latest[-1])
        evaluated = [course for course in ended.values() if course.is_of_trees or _has_training(course)]
        if not evaluated:
            return Undecided("no training loss was captured between the evaluations")
        longest = max(course.count for course in evaluated)
        if longest < _MIN_EVALUATIONS:
            return Undecided(
                f"too short: {longest:,} of {_MIN_EVALUATIONS:,} evaluations, the last one left out", stage="too few"
            )
        return Clear()

    def conclude(self, memory: Any) -> Fired | None:
        known: _Known = memory
        for key, course in known.compared(known.courses).items():
            risen = course.risen_at_end()
            if risen and not any(metric.has_risen_at_end(risen[0].step) for metric in known.metrics_of(key[0])):
                return _fired(key, course, *risen)
        return None


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


def _fired(key: _Key, course: _Course, best: _Evaluation, last: _Evaluation) -> Fired:
    unit = "round" if course.is_of_trees else "step"
    name = course.tensor if course.is_of_trees or course.tensor != key[1] else "validation loss"
    values = f"{significant(best.loss)} → {significant(last.loss)} at {unit} {last.step:,}"
    message = f"overfitting since {unit} {best.step:,}: {name} {values}"
    if not course.is_of_trees:
        message += f", while the mean training loss fell from {significant(best.training)} to "
        message += significant(last.training)
    return fired(
        message,
        course.tensor,
        advice=(_SUGGESTION_OF_TREES if course.is_of_trees else _SUGGESTION).given(step=f"{best.step:,}"),
        evidence={
            "best": best.loss,
            "best_step": best.step,
            "last": last.loss,
            "last_step": last.step,
            "noise": course.noise(),
            "evaluations": course.count,
            **({} if math.isnan(last.training) else {"training_loss": last.training}),
        },
        worker=key[0],
        since_step=best.step,
    )
