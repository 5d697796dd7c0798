"""The rule learning_rate."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import median
from typing import Any, ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.records.formatting import exact, significant
from leadline.records.names import SCHEDULE_STEPS
from leadline.rules import (
    Advice,
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
from leadline.rules.bounds import NonNegativeFloat, PositiveFloat, PositiveInt
from leadline.rules.losses import planned_schedules
from leadline.rules.losses.converged import LossLevels
from leadline.rules.losses.planned_schedules import PlannedSchedules
from leadline.rules.messages import clear_if_complete, fired, suspected, too_few
from leadline.rules.selection import select
from leadline.rules.streak import Streak
from leadline.rules.update_limits import UpdateLimits

_RATE: Final = r"(^|/)(lr|learning_rate)$"
_COUNT: Final = f"/{SCHEDULE_STEPS}"
_VANISHING: Final = 1e-2
"""The share of the lower bound below which a ratio is not explained by a learning rate of a usual size alone."""
_FADED: Final = 5e-4
"""The share of its largest value below which a learning rate is hardly any."""
_FADED_STEPS: Final = 20
_LATE: Final = 1e-2
"""The share below which small updates are those of the end of a schedule."""
_MIN_CLEAR_CAPTURES: Final = 3
"""The captures from which on a usual ratio is clear, and not one of the first steps alone."""
_FADED_ADVICE: Final = Advice("a schedule as long as the training, or {schedule_floor}; usually {short_schedule}")
_HIGH: Final = Advice(
    "a learning rate lower by {factor}, or a warm-up over the first few hundred steps; usually the rate is too high "
    "for this optimizer",
    "factor",
)
_VANISHED: Final = Advice(
    "a look at the gradient norms, and a check of the schedule and of weight decay; usually the gradients vanish on "
    "their way back, or the learning rate is nearly 0"
)
_LOW: Final = Advice(
    "a learning rate higher by {factor}, or a check of the schedule, of weight decay, and of gradients that vanish "
    "towards the input (leadline judge --rule vanishing_gradient); usually the rate is too low, or the schedule has "
    "ended",
    "factor",
)


@dataclass(slots=True)
class _Known:
    """The updates and learning rates of a worker."""

    medians: list[float] = field(default_factory=list)
    highest: float = 0.0
    latest: float = math.nan
    faded: Streak | None = None
    """The captures in a row at which the learning rate is hardly any; None: it is not."""
    levels: LossLevels = field(default_factory=LossLevels)
    limits: UpdateLimits = field(default_factory=UpdateLimits)
    plan: PlannedSchedules = field(default_factory=PlannedSchedules)

    def note_rates(self, readings: list[TensorReading]) -> None:
        """Note the learning rates at a step, of which the largest counts."""
        self.latest = max(reading.value for reading in readings)
        if self.latest > self.highest:
            self.highest = self.latest
        if not self.latest < _FADED * self.highest:
            self.faded = None
        elif self.faded is None:
            self.faded = Streak.begin(readings[0].mode_step)
        else:
            self.faded.extend(readings[0].mode_step)

    def is_over(self, step: int) -> bool:
        """Return whether there has been hardly any learning rate for most of the training up to a step."""
        if self.faded is None or step - self.faded.since < max(_FADED_STEPS, self.faded.since):
            return False
        return not self.levels.have_converged()

    @property
    def is_late(self) -> bool:
        """Whether the learning rate is small against its largest value."""
        return self.latest < _LATE * self.highest


class LearningRate(Rule, frozen=True, kw_only=True):
    """Fires when the parameters as a whole change by far too much or too little at each step.

    Why it matters:
        The size of an update relative to the weight tells more about the learning rate than the rate itself: about
        a thousandth works, for any model and optimizer. A tenth destroys the weights, a millionth takes a million
        steps.
    How it decides:
        The median over the parameters of ``norm(update) / norm(weight)`` was above ``high`` at each of the last
        ``patience`` captures, or below ``low`` at each, while the learning rate is at least a hundredth of its largest
        value and not every loss has fallen to a thousandth of its largest value. Where gradients were clipped by two
        orders of magnitude at most steps, the advice is about the clipping. Undecided before 3 captures, and as long as
        the ratio was outside these bounds at each of fewer than ``patience``. It fires too if the learning rate has
        been below a two-thousandth of its largest value for at least 20 steps and half of all steps so far, unless
        every loss has fallen to a thousandth of its largest value. From the sixth step on it fires if a trainer has a
        plan of at least 50 steps, and the only scheduler of an optimizer says for how many steps it is made: if it is
        over before half of the training, or its warm-up does not end within the training. Of a scheduler the steps
        for each update are counted. Known are ``OneCycleLR``, ``PolynomialLR``, ``LinearLR`` and the functions of
        Transformers and Diffusers for ``LambdaLR``; the plan is that of the trainers of Transformers, Lightning, and
        of callbacks of Leadline.
    Not a number:
        A parameter whose ratio is NaN or infinite (it was all zero before) is not counted; a step without any other
        ratio is skipped, and so is one whose median is exactly 0: nothing was updated (see ``no_gradient``).
    Blind spots:
        The first steps of a warm-up are small by design. With frozen parameters in the optimizer the median may be one
        of theirs. A schedule of the script's own function, of several schedulers, or that is stepped once in an epoch
        has no known length; a script without a trainer has no plan. A single parameter with an unusual ratio is
        reported by ``weight_update_ratio``.
    Args:
        low: Median ratio below which updates are too small, >= 0 and below ``high``.
        high: Median ratio above which updates are too large, > 0.
        patience: Captures in a row, >= 1.
    Source:
        Ours; Karpathy, CS231n, "Ratio of weights:updates" (around 1e-3).
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "weight_update_ratio",
        "diverging_loss",
        "loss_not_decreasing",
        "metric_not_improving",
    )

    low: NonNegativeFloat = 1e-6
    high: PositiveFloat = 1e-1
    patience: PositiveInt = 10

    def check(self) -> None:
        if self.low >= self.high:
            raise ConfigurationError(f"{self.name}: low ({exact(self.low)}) must be below high ({exact(self.high)})")

    def needs(self) -> Needs:
        rates = TensorNeed("hyperparameters", regex=_RATE, statistics=("value",), modes=("train",), is_optional=True)
        losses = TensorNeed("losses", statistics=("value",), modes=("train",), is_optional=True)
        ratios = select(("weights", "biases"), (), ("update_ratio",), modes=("train",))
        return Needs((*ratios, rates, losses, *update_limits.NEEDS, planned_schedules.NEED))

    @property
    def least_observations(self) -> int:
        return min(_MIN_CLEAR_CAPTURES, self.patience)

    def remember(self, memory: Any, window: Window) -> dict[str, _Known]:
        """Keep the medians of the last ``patience`` captured steps of each worker, and its learning rates."""
        workers: dict[str, _Known] = memory or {}
        rates: dict[str, list[TensorReading]] = {}
        for reading in window.readings("value"):
            if "losses" in reading.collections:
                workers.setdefault(reading.worker, _Known()).levels.add([reading])
            elif _is_rate(reading):
                rates.setdefault(reading.worker, []).append(reading)
        for worker in {reading.worker for reading in window.readings("value")}:
            workers.setdefault(worker, _Known()).plan.note(window, worker)
        for worker, readings in rates.items():
            workers.setdefault(worker, _Known()).note_rates(readings)
        limits = {worker: known.limits for worker, known in workers.items()}
        UpdateLimits.note(limits, window)
        for worker, noted in limits.items():
            workers.setdefault(worker, _Known()).limits = noted
        for worker, ratio in _medians(window).items():
            known = workers.setdefault(worker, _Known())
            known.medians = [*known.medians, ratio][-self.patience :]
        return workers

    def evaluate(self, window: Window) -> Verdict:
        judged = list(_medians(window))
        for reading in window.readings("value"):
            known = window.memory.get(reading.worker)
            if known is not None and known.faded is not None and _is_rate(reading) and known.is_over(reading.mode_step):
                return self._faded(reading, known, known.faded)
        for worker in {reading.worker for reading in window.readings("value") if reading.tensor.endswith(_COUNT)}:
            for message, advice, evidence in window.memory[worker].plan.findings():
                return fired(message, advice=advice, evidence=evidence, worker=worker)
        for worker in judged:
            known = window.memory[worker]
            latest = known.medians
            if len(latest) < self.patience:
                continue
            if min(latest) > self.high:
                return self._fired(min(latest), known, worker, is_high=True)
            if max(latest) < self.low and not known.is_late and not known.levels.have_converged():
                return self._fired(max(latest), known, worker, is_high=False)
        if not judged:
            return Undecided("most parameters had no finite update ratio at this step, or were not updated")
        return self._not_fired([window.memory[worker].medians for worker in judged], window)

    def _not_fired(self, medians: list[list[float]], window: Window) -> Verdict:
        """Return the verdict on the medians of each worker, of which none fires."""
        outside = max((len(known) for known in medians if self._are_outside(known)), default=0)
        count = max(map(len, medians))
        if outside and outside < self.patience:
            return suspected(outside, self.patience)
        if count < self.least_observations:
            return too_few(count, self.least_observations, "captures of update ratios")
        return clear_if_complete(window, "weights")

    def _are_outside(self, medians: list[float]) -> bool:
        return min(medians) > self.high or max(medians) < self.low

    def _faded(self, reading: TensorReading, known: _Known, faded: Streak) -> Fired:
        steps = reading.mode_step + 1
        return fired(
            f"the learning rate fell from {known.highest:.3g} to {known.latest:.3g}: below {_FADED:g} of its largest "
            f"value {faded.steps}, more than half of the {steps:,} steps",
            reading,
            advice=_FADED_ADVICE,
            evidence={"highest": known.highest, "latest": known.latest, "since_step": faded.since, "steps": steps},
            since_step=faded.since,
        )

    def _fired(self, nearest: float, known: _Known, worker: str, *, is_high: bool) -> Fired:
        latest = known.medians[-1]
        limit = self.high if is_high else self.low
        return fired(
            f"median update ratio {significant(latest)}, {'above' if is_high else 'below'} {exact(limit)} "
            f"for {self.patience} "
            f"captured step{'s' * (self.patience > 1)} in a row (nearest {significant(nearest)})",
            advice=self._suggestion(latest, known.limits, is_high=is_high),
            evidence={"median_update_ratio": latest, "nearest": nearest, "threshold": limit, "patience": self.patience},
            worker=worker,
        )

    def _suggestion(self, latest: float, limits: UpdateLimits, *, is_high: bool) -> Advice:
        if is_high:
            return _HIGH.given(factor=_factor(latest))
        if limits.is_clipping:
            return limits.advice()
        if latest < _VANISHING * self.low:
            return _VANISHED
        return _LOW.given(factor=_factor(latest))


def _is_rate(reading: TensorReading) -> bool:
    return re.search(_RATE, reading.tensor) is not None


def _factor(ratio: float) -> str:
    """Format the distance from the usual ratio of 1e-3, as a power of ten: ``a factor of about 100,000``."""
    if not 0 < ratio < math.inf:
        return "a factor of ten"
    exponent = max(1, round(abs(math.log10(ratio / 1e-3))))
    return f"a factor of about {f'{10**exponent:,}' if exponent < 7 else f'1e{exponent}'}"


def _medians(window: Window) -> dict[str, float]:
    """Return the median of the finite ratios of each worker's parameters, where it is above 0."""
    by_worker: dict[str, list[float]] = {}
    for reading in window.readings("update_ratio"):
        ratios = by_worker.setdefault(reading.worker, [])
        if math.isfinite(reading.value):
            ratios.append(reading.value)
    medians = {worker: median(ratios) for worker, ratios in by_worker.items() if ratios}
    return {worker: ratio for worker, ratio in medians.items() if ratio > 0}
