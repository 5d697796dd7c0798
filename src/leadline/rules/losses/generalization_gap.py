"""The rule generalization_gap."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar, Final

from leadline.records.formatting import significant
from leadline.records.loss_roles import role_of
from leadline.records.metric_names import is_upward
from leadline.records.names import CHECKS, OVERFITTING
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
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
from leadline.rules.robust import NORMAL_MAD, mad

_MODES: Final = ("train", "eval", "global")
_KINDS: Final = frozenset({"losses", "metrics"})
_SMOOTHED: Final = 3
"""Evaluations whose mean is one level."""
_PATIENCE: Final = 5
"""The evaluations for which validation must stand still, at least."""
_MIN_EVALUATIONS: Final = _SMOOTHED + _PATIENCE
_KEPT: Final = 101
"""The latest evaluations, which tell the noise."""
_NOISES: Final = 2.0
"""An improvement of a mean of three by so many standard deviations of one evaluation is one: by chance it is rare."""
_SMALL: Final = 0.02
"""A smaller part of what the training has gained is no improvement, however little evaluations vary."""
_CLEAR_NOISES: Final = 5.0
_LATE: Final = 0.1
"""The part of what the training gained in all that it must have gained since validation improved last."""
_PASSED_ON: Final = 0.5
"""The part of what the training gained in all that validation gained as well, at most."""
_HARDLY: Final = 0.1
"""A smaller part is taken for nothing: the sets may have little in common."""
_NARROW: Final = 0.05
"""A narrower gap between two shares is what a few samples make."""
_SUGGESTION: Final = Advice(
    "the checkpoint of step {step}, more training examples or augmentation, a smaller model, or more regularization "
    "(dropout, weight_decay); usually the model is large for its data",
    "step",
)
_SUGGESTION_OF_SETS: Final = Advice(
    "a look at inputs and labels of both sets side by side: the same preprocessing, the same order of classes, "
    "features that mean something in both (no index, no file number); where they agree, more examples, a smaller model"
)
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """One evaluation; smaller is better, so that metrics of which more is better are negated."""

    step: int
    """The train step before it."""
    value: float
    trained: float
    """The mean training value before it; NaN: none was captured."""


@dataclass(frozen=True, slots=True)
class _Level:
    """What was reached at an evaluation."""

    best: _Evaluation
    """The best of those whose mean it is."""
    count: int
    """The evaluations up to this one."""
    validation: float
    training: float


@dataclass(slots=True)
class _Pair:
    """A loss or metric of training and of validation; in here smaller is better."""

    tensor: str
    """The name that it has in validation."""
    sign: float
    """-1 if more is better."""
    training: Mean = field(default_factory=Mean)
    evaluation: Mean = field(default_factory=Mean)
    first_training: float = math.nan
    first: _Evaluation | None = None
    lowest: _Evaluation | None = None
    """The best of all."""
    count: int = 0
    latest: deque[_Evaluation] = field(default_factory=lambda: deque(maxlen=_SMOOTHED))
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    trained: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """The mean training values before these evaluations."""
    levels: deque[_Level] = field(default_factory=lambda: deque(maxlen=_KEPT))
    smallest: float = math.inf
    largest: float = -math.inf
    """Of all values."""

    def note(self, value: float) -> float:
        """Note a value; return it so that smaller is better."""
        self.smallest, self.largest = min(self.smallest, value), max(self.largest, value)
        return self.sign * value

    def end(self) -> None:
        """End the current evaluation."""
        self.count += 1
        ended = _Evaluation(self.evaluation.step, self.evaluation.value, self.training.value)
        self.first = self.first or ended
        self.lowest = ended if self.lowest is None or ended.value < self.lowest.value else self.lowest
        self.latest.append(ended)
        self.values.append(ended.value)
        if self.training.count:
            self.trained.append(self.training.value)
            self.training.is_read = True
        self.evaluation = Mean()
        if len(self.values) >= _SMOOTHED and self.trained:
            level = sum(list(self.values)[-_SMOOTHED:]) / _SMOOTHED
            best = min(self.latest, key=lambda evaluation: evaluation.value)
            self.levels.append(_Level(best, self.count, level, self.trained_now()))

    def best(self) -> _Level:
        """Return where validation has improved last, by more than its noise: the first level as good as any later."""
        least = max(_NOISES * noise_of(self.values), _SMALL * self.gained())
        reached = min(level.validation for level in self.levels) + least
        return next(level for level in self.levels if level.validation <= reached)

    def trained_now(self) -> float:
        """Return the level of the latest training."""
        return median(list(self.trained)[-_SMOOTHED:])

    def now(self) -> float:
        """Return the level of the latest evaluations."""
        return median(list(self.values)[-_PATIENCE:])

    def start(self) -> float:
        """Return where learning began: the worse of the first training value and the first evaluation."""
        return max(self.first_training, self.first.value) if self.first is not None else math.nan

    def gained(self) -> float:
        """Return what the training has gained in all."""
        return self.start() - self.trained_now()

    def given(self, value: float) -> float:
        """Return a value as the script has it."""
        return self.sign * value + 0.0  # no negative zero

    def shown(self, value: float) -> str:
        """Return a value as the script has it, in words."""
        return significant(self.given(value))

    def passed_on(self) -> float:
        """Return the part of it that validation has gained at its best."""
        return (self.start() - min(level.validation for level in self.levels)) / self.gained()

    def is_comparable(self) -> bool:
        """Return whether both are of one scale: a sum is not compared with a mean, nor a share with a percentage."""
        if self.sign < 0:
            return self.smallest >= 0 and (self.largest <= 1 or self.start() < -1)
        return self.start() - self.first_training <= _PASSED_ON * (self.first_training - self.trained_now())

    def is_narrow(self) -> bool:
        """Return whether both are shares that hardly differ."""
        whole = 1 if self.largest <= 1 else 100
        return self.sign < 0 and self.now() - self.trained_now() < _NARROW * whole

    def has_gap(self) -> bool:
        """Return whether the training has clearly gained, and validation less than half of that."""
        if not self.levels or (self.sign > 0 and len(set(self.values)) == 1) or self.is_narrow():
            return False
        is_clear = self.gained() > _CLEAR_NOISES * max(noise_of(self.trained), noise_of(self.values))
        return self.gained() > 0 and is_clear and self.is_comparable() and self.passed_on() < _PASSED_ON

    def stands_still(self) -> bool:
        """Return whether validation has not improved for long, in which the training has gained."""
        best = self.best()
        if self.count - best.count < max(_PATIENCE, best.count / 2):
            return False
        late = (self.start() if self.passed_on() < _HARDLY else best.training) - self.trained_now()
        return late > max(_LATE * self.gained(), _CLEAR_NOISES * noise_of(self.trained))


@dataclass(slots=True)
class _Known:
    """The run so far."""

    pairs: dict[_Key, _Pair] = field(default_factory=dict)
    ended: list[_Key] = field(default_factory=list)
    """The pairs of which an evaluation has ended with the latest window."""
    training: dict[_Key, Mean] = field(default_factory=dict)
    """What was trained before the first evaluation."""


class GeneralizationGap(Rule, frozen=True, kw_only=True):
    """Fires when validation no longer improves while the training goes on to, and most of what it gains is lost on it.

    Why it matters:
        What only the training examples have in common does not help with others: the model learns them by heart, and
        the time after the best validation is wasted. A training accuracy of 1.0 says nothing of the model.
    How it decides:
        A loss or metric that has the same name in training and in validation is compared; of metrics of which more is
        better only shares, such as an accuracy. An evaluation is the mean between two phases of training; the last one
        of a run is left out, since its end is not known. Validation has improved last where the mean of 3 evaluations
        was first within 2 standard deviations of an evaluation (the median absolute deviation of the differences
        between evaluations, divided by the square root of 2), or 2 % of what the training has gained, of the best.
        Fires if, after at least 8 evaluations, that is at least 5 evaluations ago, and at least half as many as led to
        it, the training has gained more than a tenth of all its gain since then, and validation less than half of that
        gain in all. Gains count from the worse of the first training value and the first evaluation, and must be more
        than 5 standard deviations of an evaluation. Two shares that differ by less than 0.05 have no gap: a few samples
        make it. Where there is a gap, but validation still improves or there are fewer evaluations, it remarks on it at
        the end of the run.
    Not a number:
        NaN and infinity are left out (see ``exploding_tensor``).
    Blind spots:
        Losses of different names, or of different scales (a sum and a mean), are not compared. Where validation
        improved with the training for most of the way, a gap is not large enough; where its loss rises again,
        ``rising_validation_loss`` fires. A validation loss that is exactly the same at every evaluation is that of a
        model that does not change, which ``closing_remarks`` says. Metrics that a script only prints are not seen.
        Training values under dropout or augmentation are worse than the model, so that the gap appears smaller. Boosted
        trees, which fit their training data better with every round, are judged by ``rising_validation_loss`` only.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("overfit", "overtraining", "rising_validation_loss")

    def needs(self) -> Needs:
        return Needs(
            tuple(
                TensorNeed(collection, statistics=("value",), modes=_MODES, is_optional=collection == "metrics")
                for collection in ("losses", "metrics")
            )
        )

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        known.ended = []
        if window.mode == "train":
            for key, pair in known.pairs.items():
                _end_before(known, key, pair, window.step)
        for role, key, reading in sorted(_readings(window), key=lambda found: found[0]):  # training before validation
            if role == "train":
                _add_training(known, key, reading.value)
            else:
                _add_validation(known, key, reading, window.step)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: _Known = window.memory
        losses = [reading for reading in window.readings("value") if "losses" in reading.collections]
        if losses and all(map(is_from_booster, losses)):
            return NotApplicable("boosted trees fit their training data better the more of them there are")
        if not known.pairs:
            return Undecided("no loss or metric was seen in training and then in validation")
        if not known.ended:
            return Undecided("no evaluation has ended at this step")
        ended = sorted(known.ended, key=lambda key: known.pairs[key].sign)  # an accuracy says it most plainly
        gaps = [(key, known.pairs[key]) for key in ended if known.pairs[key].has_gap()]
        for key, pair in gaps:
            if pair.count >= _MIN_EVALUATIONS and pair.stands_still():
                return _fired(key, pair)
        remarks = [_remark(key, pair) for key, pair in gaps]
        product = {"remarks": remarks[:1]}
        longest = max(known.pairs[key].count for key in ended)
        few = f"{longest:,} of {_MIN_EVALUATIONS:,} evaluations needed, the last one left out"
        return Undecided(few, stage="too few", product=product) if longest < _MIN_EVALUATIONS else Clear(product)


def _readings(window: Window) -> Iterator[tuple[str, _Key, TensorReading]]:
    """Yield the finite losses and metrics of networks whose direction is known: role, worker and shared name."""
    for reading in window.readings("value"):
        is_known = not _KINDS.isdisjoint(reading.collections) and CHECKS not in reading.collections
        is_loss = "losses" in reading.collections or is_upward(reading.tensor) is not None
        if is_known and is_loss and math.isfinite(reading.value) and not is_from_booster(reading):
            role, stem = role_of(reading.tensor, reading.mode, reading.collections)
            yield role, (reading.worker, stem), reading


def _add_training(known: _Known, key: _Key, value: float) -> None:
    pair = known.pairs.get(key)
    if pair is not None:
        pair.training.add(pair.note(value))
    else:
        known.training.setdefault(key, Mean()).add(value)


def _add_validation(known: _Known, key: _Key, reading: TensorReading, step: int) -> None:
    pair = known.pairs.get(key)
    if pair is None:
        before = known.training.pop(key, None)
        if before is None:
            return
        pair = known.pairs[key] = _Pair(reading.tensor, -1.0 if is_upward(reading.tensor) else 1.0)
        pair.first_training = pair.note(before.first)
        pair.training.add(pair.note(before.value))
    _end_before(known, key, pair, step)
    if not pair.evaluation.count:
        pair.evaluation.step = step
    pair.evaluation.add(pair.note(reading.value))


def _end_before(known: _Known, key: _Key, pair: _Pair, step: int) -> None:
    """End an evaluation after which the training has gone on."""
    if pair.evaluation.count and pair.evaluation.step < step and key not in known.ended:
        pair.end()
        known.ended.append(key)


def noise_of(values: deque[float]) -> float:
    """Return the standard deviation of values about their trend."""
    steps = [after - before for before, after in pairwise(values)]
    return NORMAL_MAD * mad(steps, median(steps)) / math.sqrt(2) if steps else 0.0


def _words(key: _Key, pair: _Pair) -> tuple[str, str]:
    """Return what training and validation are called in a message."""
    noun = "accuracy" if key[1] == "accuracy" else "loss" if pair.sign > 0 else key[1]
    return f"training {noun}", pair.tensor if pair.tensor != key[1] else f"validation {noun}"


def _fired(key: _Key, pair: _Pair) -> Fired:
    best, last, lowest, first = pair.best(), pair.latest[-1], pair.lowest, pair.first
    assert lowest is not None
    assert first is not None
    passed_on = pair.passed_on()
    is_kept = passed_on >= _HARDLY
    then = best.best if is_kept else first
    training, validation = _words(key, pair)
    verb = "rose" if pair.sign < 0 else "fell"
    now = f"{pair.shown(last.value)} at step {last.step:,}"
    improved = "has hardly improved" if last.value < then.value else "has not improved"
    stays = f"overfitting since step {then.step:,}: {validation} {improved} ({pair.shown(then.value)} then, {now})"
    if not is_kept:
        stays = f"overfitting: {validation} was {pair.shown(first.value)} in the first evaluation and is {now}"
    found = fired(
        f"{stays}, while the mean {training} {verb} from {pair.shown(then.trained)} to {pair.shown(last.trained)}",
        pair.tensor,
        advice=_SUGGESTION.given(step=f"{lowest.step:,}") if is_kept else _SUGGESTION_OF_SETS,
        evidence={
            "best": pair.given(lowest.value),
            "best_step": lowest.step,
            "last": pair.given(last.value),
            "last_step": last.step,
            "noise": noise_of(pair.values),
            "training": pair.given(last.trained),
            "training_then": pair.given(then.trained),
            "passed_on_ratio": passed_on,
            "evaluations": pair.count,
            "evaluations_since_best": pair.count - best.count,
        },
        worker=key[0],
        since_step=then.step,
    )
    return replace(found, product={"remarks": []})  # the finding says it


def _remark(key: _Key, pair: _Pair) -> str:
    training, validation = _words(key, pair)
    last, lowest, first = pair.latest[-1], pair.lowest, pair.first
    assert lowest is not None
    assert first is not None
    verb = "rose" if pair.sign < 0 else "fell"
    reached = f"{pair.shown(lowest.value)} at its best, at step {lowest.step:,}"
    return (
        f"the mean {training} {verb} from {pair.shown(first.trained)} to {pair.shown(last.trained)}, {validation} from "
        f"{pair.shown(first.value)} only to {reached}: most of what the model has learned is true of its training "
        f"examples alone ({OVERFITTING})"
    )
