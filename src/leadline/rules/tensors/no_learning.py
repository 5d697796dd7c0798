"""The rule no_learning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.names import gradient_name
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_OUTSIDE: Final = "/outside_optimizers"
_EVERY: Final = 10
_NOISE: Final = 1e-5
"""A gradient so much smaller than the largest of its step is what rounding leaves of one that is zero."""


@dataclass(frozen=True, slots=True)
class _Still:
    """A parameter whose bits have not changed since a step, though it had a gradient at every capture."""

    since: int
    """The step of the mode."""
    checksum: float
    rate: float
    """The largest learning rate then."""


@dataclass(slots=True)
class _Known:
    """What is known of a worker."""

    still: dict[str, _Still] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    """Parameters with a gradient that no optimizer holds, and since which step."""
    rates: dict[str, float] = field(default_factory=dict)
    """The latest learning rates."""
    first_step: int | None = None
    """The step at which parameters were first captured."""
    zero_since: int | None = None
    """Since which step every learning rate is 0."""


class NoLearning(Rule, frozen=True, kw_only=True):
    """Fires when a parameter has gradients and does not change by a bit, is in no optimizer, or all rates are 0.

    Why it matters:
        The loss may fall through the other parameters, so that nobody notices; the layer that stands still is paid for
        at every step.
    How it decides:
        Over at least ``steps`` steps one of these: a parameter receives gradients and no optimizer alive holds it; a
        parameter's gradient was above 1e-5 of the largest gradient at each capture, and its bits (their checksum) are
        the same from the first of these captures to the last; every learning rate was 0 at each capture. While the
        learning rate rises (warm-up) a parameter that stands still is not judged: the first steps may be too small to
        change a bit. Smaller gradients are what rounding leaves of zero: a bias in front of a batch norm has such, and
        stands still by right.
    Not a number:
        A gradient that holds NaN or infinity is none that should change anything (a gradient scaler skips such steps):
        the count begins anew.
    Blind spots:
        A parameter that stands still because its gradient has all but vanished is vanishing_gradient's. It sees
        captures: a parameter that changes and comes back to the bit looks unchanged. A group whose learning
        rate is 0 on purpose (gradual unfreezing) fires; freeze it by ``requires_grad`` instead. Weights that are
        clamped to a bound after each step (WGAN) may stand still by right.
    Args:
        steps: Steps over which nothing must have changed, >= 1.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "unchanged_tensor",
        "weight_update_ratio",
        "learning_rate",
        "loss_not_decreasing",
        "metric_not_improving",
    )

    steps: Annotated[int, msgspec.Meta(ge=1)] = 20

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("weights", statistics=("checksum",), modes=("train",)),
                TensorNeed("biases", statistics=("checksum",), modes=("train",)),
                TensorNeed("gradients", statistics=("abs_max",), modes=("train",)),
                TensorNeed("hyperparameters", regex=r"(^|/)lr$", statistics=("value",), modes=("train",)),
                TensorNeed("checks", regex=f"{_OUTSIDE}$", statistics=("value",), modes=("train",), every=_EVERY),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[str, _Known]:
        known: dict[str, _Known] = memory or {}
        for each in window.readings("value"):
            if each.tensor.endswith(_OUTSIDE):
                _note_outside(known.setdefault(each.worker, _Known()), each)
        rates = [each for each in window.readings("value") if not each.tensor.endswith(_OUTSIDE)]
        for worker in {each.worker for each in rates}:
            _note_rates(known.setdefault(worker, _Known()), [each for each in rates if each.worker == worker])
        gradients = {(each.worker, each.tensor): each.value for each in window.readings("abs_max")}
        largest = _largest(gradients)
        for each in window.readings("checksum"):
            gradient = gradients.get((each.worker, gradient_name(each.tensor)), math.nan)
            is_pushed = _NOISE * largest.get(each.worker, 0.0) < gradient < math.inf
            _note_bits(known.setdefault(each.worker, _Known()), each, is_pushed=is_pushed)
        return known

    def evaluate(self, window: Window) -> Verdict:
        numbers = window.readings("value")
        sums = window.readings("checksum")
        workers = dict.fromkeys(each.worker for each in (*numbers, *sums))
        for worker in workers:
            known = window.memory[worker]
            step = max(each.mode_step for each in (*numbers, *sums) if each.worker == worker)
            found = self._judge(known, step, [each for each in (*numbers, *sums) if each.worker == worker])
            if found is not None:
                return self._fired(*found, worker=worker)
        if not any(each.mode_step - window.memory[each.worker].first_step >= self.steps for each in sums):
            return Undecided(f"no parameters were captured {self.steps} steps apart")
        return Undecided("part of the parameters at this step was lost") if window.is_thinned else Clear()

    def _judge(self, known: _Known, step: int, readings: Iterable[TensorReading]) -> tuple[str, list[str], int] | None:
        """What kind of standstill there is, of what, and since which step."""
        names = {each.tensor for each in readings}
        if known.zero_since is not None and names & set(known.rates) and step - known.zero_since >= self.steps:
            return "rate", sorted(known.rates), known.zero_since
        outside = [name for name, since in known.outside.items() if step - since >= self.steps and name in names]
        if outside:
            return "outside", outside, min(known.outside[each] for each in outside)
        still = [name for name, each in known.still.items() if name in names and self._stands_still(known, each, step)]
        if still:
            return "still", still, min(known.still[each].since for each in still)
        return None

    def _stands_still(self, known: _Known, still: _Still, step: int) -> bool:
        return step - still.since >= self.steps and not _rate(known) > still.rate

    def _fired(self, kind: str, names: list[str], since: int, *, worker: str) -> Fired:
        more = and_more(len(names) - 1, "parameter")
        said, suggestion = {
            "rate": (
                f"every learning rate is 0 since step {since}",
                "a look at the scheduler's length and its last value, or a floor (eta_min, min_lr); "
                "usually a schedule is over before the training is",
            ),
            "outside": (
                f"{names[0].removesuffix(_OUTSIDE)}{more}: gradients since step {since}, and no optimizer holds it",
                "give the optimizer model.parameters() after the model is whole, or requires_grad_(False) for what is "
                "meant to stand still; usually a layer was made or replaced after the optimizer",
            ),
            "still": (
                f"{names[0]}{more}: not a bit has changed since step {since}, though gradients come",
                "a ten times higher learning rate, or float32 copies of half precision weights; usually updates are "
                "lost to rounding, its learning rate is 0, or something writes old values back after each step",
            ),
        }[kind]
        return Fired(
            said,
            tensors=tuple(names),
            suggestion=suggestion,
            worker=worker,
            evidence={"kind": kind, "since_step": since, "parameters": len(names), "steps": self.steps},
        )


def _rate(known: _Known) -> float:
    return max(known.rates.values(), default=math.nan)


def _largest(gradients: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """The largest finite gradient of each worker."""
    found: dict[str, float] = {}
    for (worker, _), value in gradients.items():
        if value < math.inf:
            found[worker] = max(value, found.get(worker, 0.0))
    return found


def _note_outside(known: _Known, reading: TensorReading) -> None:
    if reading.value > 0:
        known.outside.setdefault(reading.tensor, reading.mode_step)
    else:
        known.outside.pop(reading.tensor, None)


def _note_rates(known: _Known, readings: list[TensorReading]) -> None:
    known.rates = {each.tensor: each.value for each in readings}
    if any(known.rates.values()):
        known.zero_since = None
    elif known.zero_since is None:
        known.zero_since = readings[0].mode_step


def _note_bits(known: _Known, reading: TensorReading, *, is_pushed: bool) -> None:
    known.first_step = reading.mode_step if known.first_step is None else known.first_step
    before = known.still.get(reading.tensor)
    if not is_pushed:
        known.still.pop(reading.tensor, None)
    elif before is None or before.checksum != reading.value or _rate(known) > before.rate:
        known.still[reading.tensor] = _Still(reading.mode_step, reading.value, _rate(known))
