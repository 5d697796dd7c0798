"""The rule learning_rate."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from leadline.errors import ConfigurationError
from leadline.records.formatting import exact, significant
from leadline.records.needs import Needs
from leadline.records.verdict import Fired, Undecided, Verdict
from leadline.rules.messages import clear_if_complete, too_few
from leadline.rules.rule import Rule
from leadline.rules.selection import select

if TYPE_CHECKING:
    from leadline.reader.window import Window


class LearningRate(Rule, frozen=True, kw_only=True):
    """Fires when the parameters as a whole change by far too much or too little at each step.

    Why it matters:
        The size of an update relative to the weight tells more about the learning rate than the rate itself: about
        a thousandth works, for any model and optimizer. A tenth destroys the weights, a millionth takes a million
        steps.
    How it decides:
        The median over the parameters of ``norm(update) / norm(weight)`` was above ``high`` at each of the last
        ``patience`` captures, or below ``low`` at each. Undecided before so many captures.
    Not a number:
        A parameter whose ratio is NaN or infinite (it was all zero before) is not counted; a step without any other
        ratio is skipped, and so is one whose median is exactly 0: nothing was updated (see ``no_gradient``).
    Blind spots:
        The first steps of a warm-up are small by design, and so are the last steps of a schedule that ends at 0.
        With frozen parameters in the optimizer the median may be one of theirs. A single parameter with an unusual
        ratio is reported by ``weight_update_ratio``.
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
        "loss_not_decreasing",
    )

    low: Annotated[float, msgspec.Meta(ge=0)] = 1e-6
    high: Annotated[float, msgspec.Meta(gt=0)] = 1e-1
    patience: Annotated[int, msgspec.Meta(ge=1)] = 10

    def check(self) -> None:
        if self.low >= self.high:
            raise ConfigurationError(f"{self.name}: low ({exact(self.low)}) must be below high ({exact(self.high)})")

    def needs(self) -> Needs:
        return Needs(select(("weights", "biases"), (), ("update_ratio",), modes=("train",)))

    @property
    def least_observations(self) -> int:
        return self.patience

    def remember(self, memory: Any, window: Window) -> dict[str, list[float]]:
        """Keep the medians of the last ``patience`` captured steps of each worker."""
        medians: dict[str, list[float]] = memory or {}
        for worker, ratio in _medians(window).items():
            medians[worker] = [*medians.get(worker, ()), ratio][-self.patience :]
        return medians

    def evaluate(self, window: Window) -> Verdict:
        judged = list(_medians(window))
        for worker in judged:
            latest = window.memory[worker]
            if len(latest) < self.patience:
                continue
            if min(latest) > self.high:
                return self._fired(min(latest), latest[-1], worker, is_high=True)
            if max(latest) < self.low:
                return self._fired(max(latest), latest[-1], worker, is_high=False)
        if not judged:
            return Undecided("most parameters had no finite update ratio at this step, or were not updated")
        known = max(len(window.memory[worker]) for worker in judged)
        if known < self.patience:
            return too_few(known, self.patience, "captures of update ratios")
        return clear_if_complete(window, "weights")

    def _fired(self, nearest: float, latest: float, worker: str, *, is_high: bool) -> Fired:
        limit = self.high if is_high else self.low
        return Fired(
            f"median update ratio {significant(latest)}, {'above' if is_high else 'below'} {exact(limit)} "
            f"for {self.patience} "
            f"captured step{'s' * (self.patience > 1)} in a row (nearest {significant(nearest)})",
            evidence={"median_update_ratio": latest, "nearest": nearest, "threshold": limit, "patience": self.patience},
            suggestion=f"a learning rate {'lower' if is_high else 'higher'} by {_factor(latest)}, or a "
            + (
                "warm-up over the first few hundred steps; usually the rate is too high for this optimizer"
                if is_high
                else "check of the schedule and of weight decay; usually the rate is too low, or the schedule has ended"
            ),
            worker=worker,
        )


def _factor(ratio: float) -> str:
    """Format the distance from the usual ratio of 1e-3, as a power of ten."""
    if not 0 < ratio < math.inf:
        return "a factor of ten"
    return f"about 10^{max(1, round(abs(math.log10(ratio / 1e-3))))}"


def _medians(window: Window) -> dict[str, float]:
    """Return the median of the finite ratios of each worker's parameters, where it is above 0."""
    by_worker: dict[str, list[float]] = {}
    for reading in window.readings("update_ratio"):
        ratios = by_worker.setdefault(reading.worker, [])
        if math.isfinite(reading.value):
            ratios.append(reading.value)
    medians = {worker: median(ratios) for worker, ratios in by_worker.items() if ratios}
    return {worker: ratio for worker, ratio in medians.items() if ratio > 0}
