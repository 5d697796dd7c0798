"""The rule diverging_loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records import loss_facts as facts
from leadline.records.formatting import significant
from leadline.records.metric_names import LOGGED
from leadline.records.names import CHECKS
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
from leadline.rules.losses.block_means import BlockMeans
from leadline.rules.losses.given_loss import NEEDS, given_losses
from leadline.rules.losses.guess import ACCUMULATION_NEED, Accumulation
from leadline.rules.losses.trivial_level import MAX_START, LabelsByCall
from leadline.rules.messages import fired, too_few
from leadline.rules.robust import mann_kendall

_FIRST_LOSSES: Final = 20
"""The number of losses whose median is the level at which a training starts."""
_GROUPS: Final = 16
"""The means that are tested for a fall: of neighbours together, since losses that follow each other are alike."""
_FIRST_STEPS: Final = 5
_EVERY: Final = 50
_SIGNIFICANCE: Final = 0.1
"""That of a fall which excuses a high level: a weak sign of one is enough."""
_LOWER: Final = 0.9
"""A last quarter of the last half below this share of its median is such a sign, too."""
_OF_LOG: Final = 2.0
"""How many times its first values the loss of a log must be, where guessing is not known."""
_LEAST_OF_LOG: Final = 40
"""The values of a loss that are required in a log: each is the mean of many steps, as a rule."""
_Key = tuple[str, str]
_TOO_HIGH_RATE: Final = Advice(
    "a tenth of the learning rate, or a warm-up over the first few hundred steps; usually the rate is too high, so "
    "that each update overshoots by a little more than the last one"
)
_UNSCALED_ACCUMULATION: Final = Advice(
    "each loss divided by the number of backward passes of a step, which is {passes}; usually the gradients of all of "
    "them are added up, at a learning rate that was chosen for their mean",
    "passes",
)


@dataclass(slots=True)
class _Curve:
    """A training loss so far."""

    blocks: BlockMeans = field(default_factory=BlockMeans)
    first: list[float] = field(default_factory=list)
    level: float = math.nan
    """The median of the last half."""
    low: float = math.nan
    """What three quarters of the last half are above."""
    is_falling: bool = True
    """Whether there is a sign of a fall in the last half."""

    def add(self, value: float, step: int) -> None:
        """Add a value."""
        if len(self.first) < _FIRST_LOSSES:
            self.first.append(value)
        if self.blocks.add(value, step) and len(self.blocks.means) >= _GROUPS:
            half = self.blocks.last_half
            self.level, self.low = median(half), sorted(half)[len(half) // 4]
            is_lower = median(half[-(len(half) // 4) :]) < _LOWER * self.level
            self.is_falling = is_lower or _p_of_fall(half) < _SIGNIFICANCE

    @property
    def start(self) -> float:
        """The level at which it started."""
        return median(self.first)


@dataclass(slots=True)
class _Known:
    """The losses and labels of a run so far."""

    curves: dict[_Key, _Curve] = field(default_factory=dict)
    labels: dict[str, LabelsByCall] = field(default_factory=dict)
    accumulations: dict[_Key, Accumulation] = field(default_factory=dict)
    maximized: set[str] = field(default_factory=set)
    """Workers that maximize a loss on purpose, or by a mistake that ``loss_input`` names."""


class DivergingLoss(Rule, frozen=True, kw_only=True):
    """Fires when a training loss rises above that of guessing, and does not come back.

    Why it matters:
        A loss may grow for hundreds of steps without a jump and without a NaN. The model is worse than one that knows
        nothing from there on, and every further step makes it worse.
    How it decides:
        Evaluated are losses of which the loss of guessing is known: the entropy of the labels for a cross entropy or
        negative log likelihood (ln C where the labels were not captured and the backward pass begins at one cross
        entropy with C classes), their mean square for a mean squared error, their mean distance from their median for
        an absolute error. The losses are averaged over up to 128 blocks of equal length. It fires, from ``least``
        losses on, if three quarters of the last half of the blocks are above ``factor`` times both guessing and the
        median of the first 20 losses, and the Mann-Kendall test finds no fall in that half, not even at a significance
        of 0.1, nor is the median of its last quarter more than 10 % lower. The test is applied to the means of up to 16
        groups of neighbours, since losses that follow each other are not independent. Of several training losses all
        must have risen by ``factor``: two that compete are those of adversaries. In a log that ``leadline diagnose``
        reads, guessing is not known: there, twice the first losses stands for it, and 40 values are enough, unless a
        name tells of rewards or adversaries.
    Not a number:
        NaN and infinity are skipped (see ``exploding_tensor``).
    Blind spots:
        A loss that rises again, but not above guessing, may be that of harder examples, of a new task or of a growing
        penalty, and does not fire; neither does one of which guessing is not known: sums of several terms, and the
        losses of policies, critics and energies, which may rise in a healthy training. Left out are a first level above
        three times guessing (a sum, or told by ``loss_at_start``), losses that are maximized, sums over parts of a
        batch, and regressions whose labels change with the model.
    Args:
        factor: How many times guessing and the first losses is too much, > 1.
        least: Losses that are required, >= 40.
    Source:
        Ours; Mann 1945, Kendall 1975; Yue and Wang, "The Mann-Kendall test modified by effective sample size to detect
        trend in serially correlated hydrological series" (2004).
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "exploding_gradient",
        "loss_spike",
        "learning_rate",
        "loss_not_decreasing",
        "metric_not_improving",
        "overtraining",
        "weight_update_ratio",
    )

    factor: Factor = 1.5
    least: Annotated[int, msgspec.Meta(ge=40)] = 100

    def needs(self) -> Needs:
        modes = ("train",)
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=modes),
                *LabelsByCall.needs(end=_FIRST_STEPS, every=_EVERY),
                *(replace(need, is_optional=True) for need in NEEDS.tensors),
                ACCUMULATION_NEED,
            )
        )

    @property
    def least_observations(self) -> int:
        return self.least

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        LabelsByCall.note(known.labels, window)
        Accumulation.note(known.accumulations, _checks(window))
        known.maximized |= {loss.worker for loss in given_losses(window) if loss.has(facts.IS_NEGATED)}
        for reading in _losses(window):
            if math.isfinite(reading.value):
                known.curves.setdefault((reading.worker, reading.tensor), _Curve()).add(reading.value, window.step)
        return known

    def evaluate(self, window: Window) -> Verdict:
        losses, known = _losses(window), window.memory
        if not losses:
            return Undecided("no loss was captured at this step")
        if all(map(is_from_booster, losses)):
            return NotApplicable("boosted trees start from a constant prediction")
        levels = [(reading, level) for reading in losses if (level := self._guess(known, reading)) is not None]
        curves = [(reading, known.curves[reading.worker, reading.tensor], level) for reading, level in levels]
        count = max((curve.blocks.values for _, curve, _ in curves), default=0)
        if not curves:
            return NotApplicable("no training loss of which the loss of guessing is known")
        least = min(self.least, _LEAST_OF_LOG) if LOGGED in losses[0].collections else self.least
        if count < least:
            return too_few(count, least, "losses")
        for reading, curve, guess in curves:
            is_high = curve.blocks.values >= least and self._is_high(curve, guess[0], reading)
            if is_high and self._have_all_risen(known, reading):
                if not curve.is_falling:
                    return self._fired(reading, curve, guess, known.accumulations.get((reading.worker, reading.tensor)))
                return Undecided(f"{reading.tensor} is far above guessing, but falls", stage="suspected")
        return Clear()

    def _guess(self, known: _Known, reading: TensorReading) -> tuple[float, str] | None:
        """Return the loss of guessing and its description; None: it is not known, or the loss is not comparable."""
        curve = known.curves.get((reading.worker, reading.tensor))
        if curve is not None and LOGGED in reading.collections:
            return (curve.start, "the first losses") if curve.start > 0 else None
        labels = known.labels.get(reading.worker)
        weighted = known.accumulations.get((reading.worker, reading.tensor), Accumulation()).is_weighted_sum
        if curve is None or labels is None or weighted or reading.worker in known.maximized:
            return None
        level = labels.level(reading.tensor) or labels.level_of_only_call()
        if level is None or level.perfect:  # of a loss that may be negative a multiple says nothing
            return None
        bound = max(level.value, labels.largest_square(reading.tensor) or 0.0)
        return (bound, level.predictor) if curve.start <= MAX_START * bound else None

    def _is_high(self, curve: _Curve, guess: float, reading: TensorReading) -> bool:
        factor = max(self.factor, _OF_LOG) if LOGGED in reading.collections else self.factor
        return curve.low > factor * max(guess, curve.start)

    def _have_all_risen(self, known: _Known, reading: TensorReading) -> bool:
        """Return whether all losses of the worker have, as far as they are still computed.

        Of a log, those with too few values to tell are left aside: there, losses of validation data are among them.
        """
        is_logged = LOGGED in reading.collections
        since = known.curves[reading.worker, reading.tensor].blocks.half_step
        curves = [curve for (worker, _), curve in known.curves.items() if worker == reading.worker]
        curves = [curve for curve in curves if not (is_logged and math.isnan(curve.low))]
        return all(curve.low > self.factor * abs(curve.start) for curve in curves if curve.blocks.last_step >= since)

    def _fired(
        self, reading: TensorReading, curve: _Curve, guess: tuple[float, str], accumulation: Accumulation | None
    ) -> Fired:
        values = len(curve.blocks.last_half) * curve.blocks.length
        suggestion = _TOO_HIGH_RATE
        if accumulation is not None and accumulation.passes > 1 and not accumulation.is_scaled:
            suggestion = _UNSCALED_ACCUMULATION.given(passes=f"{accumulation.passes:,}")
        return fired(
            f"{reading.tensor} rose from {significant(curve.start)} to {significant(curve.level)}, the median over its "
            f"last {values:,} values, and does not fall: {significant(curve.level / guess[0])} times {guess[1]} "
            f"({significant(guess[0])})",
            reading,
            advice=suggestion,
            evidence={
                "start": curve.start,
                "level": curve.level,
                "guess": guess[0],
                "predictor": guess[1],
                "values": values,
                "backward_passes": accumulation.passes if accumulation is not None else 1,
            },
            since_step=curve.blocks.half_step,
        )


def _p_of_fall(means: list[float]) -> float:
    """Return the p-value of a fall, from the means of groups of neighbours."""
    size = math.ceil(len(means) / _GROUPS)
    groups = [means[at : at + size] for at in range(len(means) % size, len(means), size)]
    return mann_kendall([sum(group) / len(group) for group in groups]).p_of_falling()


def _losses(window: Window) -> list[TensorReading]:
    return [reading for reading in window.readings("value") if "losses" in reading.collections]


def _checks(window: Window) -> list[TensorReading]:
    return [reading for reading in window.readings("value") if CHECKS in reading.collections]
