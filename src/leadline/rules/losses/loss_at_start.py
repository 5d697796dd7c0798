"""The rule loss_at_start."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.bounds import Factor
from leadline.rules.losses.guess import (
    ACCUMULATION_NEED,
    WHOLE_LOSS,
    Accumulation,
    Guess,
    LossCall,
    call_name,
    guess_of,
    whole_loss,
)
from leadline.rules.messages import fired, suspected, too_few

_FIRST_LOSSES: Final = 10
"""The number of losses that are compared with guessing."""
_CALL_STEPS: Final = 2
"""The number of first steps at which the loss calls are looked at."""
_RISE: Final = 1.1
"""The smallest ratio to the first loss that is no noise."""
_MOSTLY: Final = 1.5
"""The same for half of the losses."""
_RISE_UNKNOWN: Final = 10.0
"""The smallest ratio for losses whose guess is not known: those of a policy may rise in a healthy training."""
_ERRORS: Final = 3.0
"""The number of standard errors by which the labels of other batches may be larger."""
_SUM: Final = (0.5, 2.0)
"""A loss between these multiples of the number of labels, in units of guessing, may be a sum over the batch; one of a
regression also below, since labels may be small."""
_START_ADVICE: Final = Advice(
    "inputs scaled to a standard deviation of 1, and a smaller initial weight scale of the last layer (or zeros); "
    "usually inputs are not scaled, the last layer starts too large, or the loss is not averaged"
)
_RISE_ADVICE: Final = Advice(
    "a tenth of the learning rate, or a warm-up over the first few hundred steps; usually the first updates are far "
    "too large, or the sign of the loss is wrong"
)


@dataclass(slots=True)
class _Curve:
    """The first values of a loss."""

    first: float
    count: int = 1
    after: list[float] = field(default_factory=list)
    """The values after the first one, without NaN."""

    def add(self, value: float) -> None:
        self.count += 1
        if not math.isnan(value):
            self.after.append(value)

    @property
    def lowest_after(self) -> float:
        return min(self.after, default=math.inf)

    @property
    def median_after(self) -> float:
        return statistics.median(self.after) if self.after else math.nan


@dataclass(slots=True)
class _Start:
    """The first steps of a worker."""

    calls: dict[str, LossCall] = field(default_factory=dict)
    """The loss calls by name."""
    curves: dict[str, _Curve] = field(default_factory=dict)
    whole: str = ""
    """The loss call that is all of a loss with another name; empty: not known."""
    weighted_sums: set[str] = field(default_factory=set)
    """Losses that add up parts of a batch of which each has as many labels as it happens to have."""


class LossAtStart(Rule, frozen=True, kw_only=True):
    """Fires when the first losses are far above that of random guessing, or stay above the first one.

    Why it matters:
        An untrained classifier of C classes with evenly spread predictions has a cross entropy of ln C, a regression
        that predicts about 0 the mean of the squared labels. Much higher first losses mean wrong predictions of great
        confidence: inputs or weights are far too large. A loss that only rises is driven by too high a learning rate.
    How it decides:
        Guessing gives ln C for a cross entropy or negative log likelihood (C is the size of the class dimension, or
        ``classes``), ln 2 for a binary cross entropy, ``mean(labels ** 2) + 1`` for a mean squared error, and
        ``mean(abs(labels)) + 1`` for an absolute, smooth or Huber error: outputs of an untrained model are of size 1.
        Fires if each loss from the second to the tenth is above that of guessing: ``factor`` times for classes, and so
        that errors are ``label_factor`` times the size of the labels (squared for a squared error). Also fires if each
        loss of the ``steps`` steps after the first one is more than 1.1 times both the first loss and guessing, or 10
        times the first loss where guessing is not known; or if half of them are more than 1.5 times both, where
        guessing is known, in a regression for labels that are larger by three standard errors of their batch. Of
        several losses all must rise.
    Not a number:
        A loss that is NaN or infinite is not evaluated (see ``exploding_tensor``).
    Blind spots:
        A training that starts from a checkpoint begins below guessing, and one that is warmed up stays there; neither
        fires. A loss that is between half and twice the number of labels times that of guessing (in a regression, up to
        twice) may be a sum over the batch, and is compared with such a sum. The sums over several parts of a batch (one
        backward pass each, weighted by their tokens) have no such level. Terms added to the loss hide the loss call,
        and so does a compiled model: only a rise is seen then. A margin or a scale within the logits (ArcFace) starts
        far above ln C.
    Args:
        factor: How many times ln C is too much, > 1.
        label_factor: How many times the size of the labels is too large an error, > 1.
        classes: Number of classes, >= 2; none: taken from the loss call.
        steps: Steps after the first one during which the loss must not stay above it, >= 10.
    Source:
        Ours; Karpathy, "A Recipe for Training Neural Networks", 2019 (verify loss at init).
    """

    explains: ClassVar[tuple[str, ...]] = (
        "loss_spike",
        "diverging_loss",
        "loss_not_decreasing",
        "metric_not_improving",
        "learning_rate",
    )

    factor: Factor = 3.0
    label_factor: Factor = 10.0
    classes: Annotated[int, msgspec.Meta(ge=2)] | None = None
    steps: Annotated[int, msgspec.Meta(ge=10)] = 40

    def needs(self) -> Needs:
        modes, end = ("train",), _CALL_STEPS
        wanted = ("mean", "variance", "abs_mean")
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=modes, end=self.steps + 1),
                TensorNeed("predictions", statistics=("abs_max",), modes=modes, end=end, is_optional=True),
                TensorNeed("labels", statistics=wanted, modes=modes, end=end, is_optional=True),
                WHOLE_LOSS,
                ACCUMULATION_NEED,
            )
        )

    @property
    def least_observations(self) -> int:
        return _FIRST_LOSSES

    def remember(self, memory: Any, window: Window) -> dict[str, _Start]:
        starts: dict[str, _Start] = memory or {}
        for statistic in ("abs_max", "mean", "variance", "abs_mean"):
            for reading in window.readings(statistic):
                LossCall.note(starts.setdefault(reading.worker, _Start()).calls, reading)
        for worker, whole in whole_loss(window.readings("value")).items():
            starts.setdefault(worker, _Start()).whole = whole
        accumulations: dict[tuple[str, str], Accumulation] = {}
        Accumulation.note(accumulations, window.readings("value"))
        for (worker, loss), accumulation in accumulations.items():
            if accumulation.is_weighted_sum:
                starts.setdefault(worker, _Start()).weighted_sums.add(loss)
        for reading in _losses(window):
            curves = starts.setdefault(reading.worker, _Start()).curves
            if reading.tensor in curves:
                curves[reading.tensor].add(reading.value)
            else:
                curves[reading.tensor] = _Curve(reading.value)
        return starts

    def evaluate(self, window: Window) -> Verdict:
        losses = _losses(window)
        if not losses:
            return Undecided("no loss was captured at this step")
        if all(map(is_from_booster, losses)):
            return NotApplicable("boosted trees start from a constant prediction")
        judged = [(reading, window.memory[reading.worker]) for reading in losses if math.isfinite(reading.value)]
        for reading, start in judged:
            finding = self._far_above(reading, start) or self._stays_above(reading, start)
            if finding is not None:
                return finding
        count = max((start.curves[reading.tensor].count for reading, start in judged), default=0)
        if count < _FIRST_LOSSES:
            return too_few(count, _FIRST_LOSSES, "first losses")
        if any(self._is_rising(reading, start) for reading, start in judged):
            return suspected(count - 1, self.steps, "losses")
        return Clear()

    def _guess(self, reading: TensorReading, start: _Start) -> Guess | None:
        if reading.tensor in start.weighted_sums:
            return None
        is_named = not start.whole or call_name(reading.tensor) in start.calls
        if is_named:
            return guess_of(reading.tensor, start.calls, self.classes)
        guess = guess_of(start.whole, start.calls, self.classes)
        return replace(guess, labels=0) if guess is not None else None  # it is a mean

    def _far_above(self, reading: TensorReading, start: _Start) -> Fired | None:
        """Return the finding if all losses after the first one are far above guessing so far."""
        curve, guess = start.curves[reading.tensor], self._guess(reading, start)
        if guess is None or curve.count < _FIRST_LOSSES or not math.isfinite(curve.lowest_after):
            return None
        factor = self.factor if guess.classes else self.label_factor**guess.power
        limit = factor * _level(guess, curve)
        if curve.lowest_after <= limit:
            return None
        if curve.first <= limit:
            return self._fired(reading, curve, guess, _rise(reading, curve), _RISE_ADVICE)
        lowest = min(curve.first, curve.lowest_after)
        message = (
            f"{reading.tensor}: each of the first {curve.count} captured losses is at least {significant(lowest)}, "
            f"{significant(lowest / guess.loss)} times that of guessing {guess.words}"
        )
        return self._fired(reading, curve, guess, message, _START_ADVICE)

    def _stays_above(self, reading: TensorReading, start: _Start) -> Fired | None:
        """Return the finding if the loss stayed above its start."""
        curve, guess = start.curves[reading.tensor], self._guess(reading, start)
        if curve.count <= self.steps:
            return None
        if self._is_rising(reading, start):
            return self._fired(reading, curve, guess, _rise(reading, curve), _RISE_ADVICE)
        if guess is not None and _is_mostly_above(curve, guess, start):
            message = (
                f"{reading.tensor} started at {significant(curve.first)}, and half of the "
                f"{curve.count - 1} losses captured after that "
                f"are above {significant(curve.median_after)}"
            )
            return self._fired(reading, curve, guess, message, _RISE_ADVICE)
        return None

    def _is_rising(self, reading: TensorReading, start: _Start) -> bool:
        if not all(curve.lowest_after > _RISE * abs(curve.first) for curve in start.curves.values()):
            return False
        curve, guess = start.curves[reading.tensor], self._guess(reading, start)
        if curve.first <= 0:
            return False
        bound = _RISE_UNKNOWN * curve.first if guess is None else _RISE * _level(guess, curve)
        return curve.lowest_after > bound

    def _fired(
        self, reading: TensorReading, curve: _Curve, guess: Guess | None, message: str, suggestion: Advice
    ) -> Fired:
        evidence = {"first": curve.first, "lowest_after": curve.lowest_after, "losses": curve.count}
        if guess is not None:
            evidence |= {"guess": guess.loss} | ({"classes": guess.classes} if guess.classes else {})
        return fired(
            message, reading, advice=suggestion, evidence=evidence, since_step=reading.mode_step - curve.count + 1
        )


def _losses(window: Window) -> list[TensorReading]:
    return [reading for reading in window.readings("value") if "losses" in reading.collections]


def _is_mostly_above(curve: _Curve, guess: Guess, start: _Start) -> bool:
    """Return whether half of the losses, and of each other loss, are far above the first one and guessing."""
    are_high = all(curve.median_after > _MOSTLY * abs(curve.first) for curve in start.curves.values())
    other_batches = 1 + _ERRORS * guess.error / guess.loss
    return are_high and curve.first > 0 and curve.median_after > _MOSTLY * other_batches * _level(guess, curve)


def _rise(reading: TensorReading, curve: _Curve) -> str:
    return (
        f"{reading.tensor} started at {significant(curve.first)}, and stayed above "
        f"{significant(curve.lowest_after)} at each of the "
        f"{curve.count - 1} losses captured after that"
    )


def _level(guess: Guess, curve: _Curve) -> float:
    """Return what guessing gives, summed over the batch if the loss seems to be."""
    return guess.loss * (guess.labels if _is_sum(curve.first, guess) else 1)


def _is_sum(loss: float, guess: Guess) -> bool:
    """Return whether a first loss is about what guessing gives if it is summed over the batch."""
    low, high = _SUM if guess.classes else (0.0, _SUM[1])
    return guess.labels > 1 and low <= loss / (guess.loss * guess.labels) <= high
