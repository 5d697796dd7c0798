"""The rule metric_not_improving."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.records.metric_names import PRINTED, is_upward, printed_resolution, stem_of
from leadline.records.names import gradient_name
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    Rule,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
    update_limits,
)
from leadline.rules.losses import gradient_sizes, update_sizes
from leadline.rules.losses.block_means import BlockMeans
from leadline.rules.losses.given_loss import NEEDS
from leadline.rules.losses.gradient_sizes import GradientSizes
from leadline.rules.losses.trivial_level import MIN_VALUES, LabelsByCall, TrivialLevel, is_comparable
from leadline.rules.messages import fired, too_few
from leadline.rules.robust import mann_kendall
from leadline.rules.update_limits import UpdateLimits

_NO_METRIC: Final = "no metric or loss with a known direction was captured at this step"
_MIN_CLEAR_VALUES: Final = 50
"""The values from which on a metric that is better than a trivial predictor is clear."""
_KINDS: Final = frozenset({"losses", "metrics"})
_FIRST_STEPS: Final = 5
_EVERY: Final = 50
_SMALL_UPDATE: Final = 5e-4
"""A median update ratio that is never above this indicates a low learning rate."""
_STICKY: Final = 10.0
"""Once a metric is stuck, an improvement must be significant at ``p`` divided by this."""
_RARE: Final = 0.75
"""The share of the most frequent label above which an accuracy tells little."""
_ADVICE: Final = Advice(
    "overfitting a single batch as a test, and inspecting inputs with their labels; usually labels and inputs do not "
    "belong together, the learning rate is far off, or gradients do not reach the layers that matter"
)
_SMALL_UPDATE_ADVICE: Final = Advice(
    "a higher learning rate: an update changes half of the weights by less than {ratio} of their size, and some 0.001 "
    "is usual; otherwise overfit a single batch as a test",
    "ratio",
)


@dataclass(slots=True)
class _Curve:
    """A metric so far."""

    is_upward: bool
    blocks: BlockMeans = field(default_factory=BlockMeans)
    evaluations: int = 0
    """The number of evaluations that its values are from."""
    resolution: float = math.inf
    """The unit of the last decimal of printed values; infinite: none was printed."""

    def add(self, value: float, train_step: int) -> bool:
        """Add a value; return whether it completes a block."""
        self.evaluations += train_step != self.blocks.last_step
        return self.blocks.add(value, train_step)


@dataclass(frozen=True, slots=True)
class _Level:
    """The level of a metric at the end of its last block."""

    value: float
    """Mean of the last half."""
    trivial: float
    """The value that a predictor without input would reach."""
    predictor: str
    """The description of that predictor."""
    p: float
    """The p-value of an improvement."""
    is_better: bool
    """Whether it is better than that value by two standard errors."""
    is_stuck: bool
    values: int
    """The number of values in the last half."""


@dataclass(slots=True)
class _Memory:
    curves: dict[tuple[str, str, str], _Curve] = field(default_factory=dict)
    levels: dict[tuple[str, str, str], _Level] = field(default_factory=dict)
    labels: dict[str, LabelsByCall] = field(default_factory=dict)
    gradients: dict[str, GradientSizes] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    """By worker the largest median of the weights' update ratios."""
    limits: dict[str, UpdateLimits] = field(default_factory=dict)
    losses: dict[str, set[str]] = field(default_factory=dict)
    """By worker the names of the training losses."""

    def has_rival(self, reading: TensorReading) -> bool:
        """Return whether a training loss is one of several that are not all stuck, such as those of adversaries."""
        since = self.curves[reading.worker, reading.mode, reading.tensor].blocks.half_step
        keys = [(reading.worker, reading.mode, name) for name in self.losses[reading.worker]]
        current = [key for key in keys if key in self.curves and self.curves[key].blocks.last_step >= since]
        return not all(key in self.levels and self.levels[key].is_stuck for key in current)


class MetricNotImproving(Rule, frozen=True, kw_only=True):
    """Fires when a metric or loss no longer improves, at the level of a trivial predictor.

    Why it matters:
        A training that has converged is finished; one that stays at the level of guessing has not begun to learn,
        and more epochs will not change that.
    How it decides:
        The values of a metric, at least 300 and of at least two evaluations, are averaged over 64 to 128 blocks of
        equal length. It fires if, over the last half of the blocks, the Mann-Kendall test finds no improvement at
        significance ``p``, and their mean is at the trivial level: not better by two standard errors, and for a loss at
        most 1.5 times as high, or, of a training loss, worse than that after a first tenth of at most three times as
        high (else it may be a sum). Of several training losses all must be at that level: that of an adversary is there
        when the other one plays well. Then it stays so until an improvement is significant at a tenth of ``p``, or the
        mean is better by four standard errors. Undecided before 300 values, but clear from 50 on if the mean of their
        last half is better by two standard errors. The trivial level is the entropy of the labels for a cross entropy
        or negative log likelihood, their variance for a mean squared error, their mean distance from their median for
        an absolute error, the Poisson loss of their mean, the share of the most frequent label for an accuracy (up to
        75 %); of boosters as in ``closing_remarks``. Of a loss whose labels were not captured it is ln C, if the
        backward pass begins at one cross entropy with C classes. Of printed metrics only those named as of validation
        data are compared, and given half the unit of their last decimal. If the mean absolute gradients of at least the
        first two parameters (not vectors) are below a ten-thousandth of the largest one, the message says that they
        vanish, and where; otherwise, where gradients were clipped by two orders of magnitude at most steps, the advice
        is about the clipping, and if the median update ratio of the weights is never above 0.0005, the advice is a
        higher learning rate. With ``from_start`` all other metrics are compared with their first tenth; whether higher
        or lower is better is taken from the name (accuracy, f1, auc, reward …; loss, error, perplexity …). A finding
        that is over, as the metric improves after all, is advice from then on.
    Not a number:
        NaN and infinity are skipped.
    Blind spots:
        A loss that is learned only slowly, below its noise, may look constant. Labels are those of the first 5 steps
        and every 50th; rare classes may be missing. A regression whose labels' variance changes by half during the run
        (targets of the model's own making) is not evaluated. For several outputs the variance of all of them is higher
        than the error of predicting the mean of each. With ``from_start``, models with a good start (fine-tuning) and
        losses of two competing networks have a first tenth that they need not improve on.
    Args:
        p: Significance level of an improvement, > 0 and < 1.
        from_start: Whether metrics whose trivial level is not known are compared with their first tenth.
    Source:
        Ours; Mann 1945, Kendall 1975.
    """

    passes: ClassVar[bool] = True

    p: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.01
    from_start: bool = False

    def needs(self) -> Needs:
        modes = ("train", "eval")
        return Needs(
            (
                TensorNeed("metrics", statistics=("value",), modes=modes, is_optional=True),
                TensorNeed("losses", statistics=("value",), modes=modes, is_optional=True),
                *LabelsByCall.needs(end=_FIRST_STEPS, every=_EVERY),
                *(replace(need, is_optional=True) for need in NEEDS.tensors),
                gradient_sizes.NEED,
                update_sizes.NEED,
                *update_limits.NEEDS,
            )
        )

    @property
    def least_observations(self) -> int:
        return _MIN_CLEAR_VALUES

    def remember(self, memory: Any, window: Window) -> _Memory:
        known: _Memory = memory or _Memory()
        LabelsByCall.note(known.labels, window)
        GradientSizes.note(known.gradients, window)
        update_sizes.note_ratios(known.ratios, window)
        UpdateLimits.note(known.limits, window)
        for reading in _metrics(window):
            if _is_training_loss(reading):
                known.losses.setdefault(reading.worker, set()).add(reading.tensor)
            is_up = is_upward(reading.tensor)
            if is_up is None or not math.isfinite(reading.value):
                continue
            key = (reading.worker, reading.mode, reading.tensor)
            curve = known.curves.setdefault(key, _Curve(is_up))
            if PRINTED in reading.collections:
                curve.resolution = min(curve.resolution, printed_resolution(reading.value))
            is_whole = curve.add(reading.value, window.step)
            if is_whole and curve.blocks.values >= _MIN_CLEAR_VALUES and curve.evaluations > 1:
                before = known.levels.pop(key, None)
                labels = known.labels.get(reading.worker, LabelsByCall())
                level = self._evaluate_level(curve, reading, labels, was_stuck=before is not None and before.is_stuck)
                if level is not None and (level.is_better or curve.blocks.values >= MIN_VALUES):
                    known.levels[key] = level
        return known

    def evaluate(self, window: Window) -> Verdict:
        readings = _metrics(window)
        levels = [
            (reading, window.memory.levels.get((reading.worker, reading.mode, reading.tensor))) for reading in readings
        ]
        judged = [(reading, level) for reading, level in levels if level is not None]
        stuck = [
            (reading, level)
            for reading, level in judged
            if level.is_stuck and not (_is_training_loss(reading) and window.memory.has_rival(reading))
        ]
        if stuck:
            tensors = tuple(dict.fromkeys(reading.tensor for reading, _ in stuck))
            return self._fired(*stuck[0], tensors, window.memory)
        if judged:
            return Clear()
        keys = [(reading.worker, reading.mode, reading.tensor) for reading in readings]
        values = max(
            (window.memory.curves[key].blocks.values for key in keys if key in window.memory.curves), default=0
        )
        if values >= MIN_VALUES:
            return Undecided(
                "the loss of guessing is not known without labels, or there was only one evaluation", stage="too few"
            )
        return too_few(values, MIN_VALUES, "values of a metric or loss") if values else Undecided(_NO_METRIC)

    def _evaluate_level(
        self, curve: _Curve, reading: TensorReading, labels: LabelsByCall, *, was_stuck: bool
    ) -> _Level | None:
        known = labels.level(reading.tensor) if _is_of_known_data(reading) else None
        if known is None and _is_training_loss(reading):
            known = labels.level_of_only_call()
        if known is None and not self.from_start:
            return None
        half = curve.blocks.last_half
        level = sum(half) / len(half)
        error = (sum((mean - level) ** 2 for mean in half) / len(half)) ** 0.5 / len(half) ** 0.5
        trend = mann_kendall(half)
        p = trend.p_of_rising() if curve.is_upward else trend.p_of_falling()
        guess = known or _start(curve)
        trivial = guess.value
        slack = curve.resolution / 2 if math.isfinite(curve.resolution) else 0.0
        gain = (level - trivial if curve.is_upward else trivial - level) + slack
        is_better = gain > (4 if was_stuck else 2) * error
        is_stuck = p > (self.p / _STICKY if was_stuck else self.p) and not is_better
        if known is not None:
            # a validation loss may rise above guessing by overconfidence, while the predictions are right
            start = _start(curve).value if _is_training_loss(reading) else math.inf
            is_known = trivial <= _RARE if curve.is_upward else is_comparable(level, start, trivial, guess.perfect)
            is_stuck = is_stuck and is_known
        return _Level(level, trivial, guess.predictor, p, is_better, is_stuck, len(half) * curve.blocks.length)

    def _fired(self, reading: TensorReading, level: _Level, tensors: tuple[str, ...], memory: _Memory) -> Fired:
        message = (
            f"{reading.tensor} stays at {significant(level.value)} over the last {level.values:,} "
            f"values, no better than {level.predictor} ({significant(level.trivial)})"
        )
        evidence = {
            "level": level.value,
            "trivial": level.trivial,
            "trivial_predictor": level.predictor,
            "p_of_trend": level.p,
            "threshold": self.p,
            "values": level.values,
        }
        suggestion = _ADVICE
        vanished = memory.gradients.get(reading.worker, GradientSizes()).vanished()
        ratio = memory.ratios.get(reading.worker, math.inf)
        if vanished is not None:
            message = f"{message}; {vanished.description()}"
            tensors = (*tensors, *map(gradient_name, vanished.names))
            evidence |= vanished.evidence()
            suggestion = gradient_sizes.SUGGESTION
        elif (limits := memory.limits.get(reading.worker, UpdateLimits())).is_clipping:
            evidence |= {"norm_before_clipping": limits.before, "gradient_norm": limits.after, "scale": limits.scale}
            suggestion = limits.advice()
        elif ratio < _SMALL_UPDATE:
            evidence["update_ratio"] = ratio
            suggestion = _SMALL_UPDATE_ADVICE.given(ratio=f"{ratio:.2g}")
        return fired(message, *tensors, advice=suggestion, evidence=evidence, worker=reading.worker)


def _metrics(window: Window) -> list[TensorReading]:
    return [reading for reading in window.readings("value") if not _KINDS.isdisjoint(reading.collections)]


def _is_training_loss(reading: TensorReading) -> bool:
    return reading.mode == "train" and "losses" in reading.collections


def _is_of_known_data(reading: TensorReading) -> bool:
    """Return whether it is known of which data a metric is: a printed one must name its validation data."""
    return PRINTED not in reading.collections or stem_of(reading.tensor)[0] == "validation"


def _start(curve: _Curve) -> TrivialLevel:
    """Return the first tenth of a metric."""
    first = curve.blocks.means[: max(1, len(curve.blocks.means) // 10)]
    return TrivialLevel(sum(first) / len(first), "at the start")
