"""The rule poor_weight_initialization."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.rules import Advice, Fired, Needs, Rule, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat, PositiveInt
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_pattern, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_Key = tuple[str, str]

_MIN_ELEMENTS: Final = 20
"""Percentiles of fewer elements are meaningless."""
_CAPTURES: Final = 3
"""Captures in a row at which signals must fade: layers that start with zeros pass none back at the first update."""
_NARROW: Final = 1e-6
"""The share of the widest gradient below which another one has faded."""
_RISE: Final = 2.0
"""A loss that has risen by less may be noise of single batches."""
_ACTIVATIONS_ADVICE: Final = Advice(
    "{he_normal} weights in front of ReLU ({xavier_normal} for tanh and sigmoid), or a normalization layer; usually "
    "the scale of the weights does not fit the layers' widths"
)
_GRADIENTS_ADVICE: Final = Advice(
    "a larger scale of the initial weights, or a normalization layer in front of it; usually the signal fades on its "
    "way through the layers"
)
_LOSSES_ADVICE: Final = Advice(
    "the framework's own initialization, or a lower learning rate; usually the first updates are too large for the "
    "scale of the weights"
)


@dataclass(slots=True)
class _FirstLosses:
    """A loss in the first steps."""

    first: float
    high: int = 0
    """The number of steps in a row at which it was far above the first one."""


@dataclass(slots=True)
class _Known:
    """The first steps so far."""

    spread: dict[str, int] = field(default_factory=dict)
    """By worker, the captures in a row at which variances differed too much."""
    narrow: dict[_Key, int] = field(default_factory=dict)
    """By gradient, the captures in a row at which it hardly varied."""
    losses: dict[_Key, _FirstLosses] = field(default_factory=dict)


class PoorWeightInitialization(Rule, frozen=True, kw_only=True):
    """Fires when the first steps show that signals grow or fade from layer to layer, or that nothing is learned.

    Why it matters:
        Weights that start too large, too small or all equal lead to very different signals and gradients in
        different layers; the training starts slowly or not at all, and no learning rate fits all layers.
    How it decides:
        Fires at the first ``steps`` train steps if one of these conditions holds. At 3 captures in a row the variances
        of the activations' inputs differ between layers, ``largest / smallest > threshold ** n``, where n is the
        number of layers from one to the other. At 3 captures in a row a gradient hardly varies, ``p95 - p5 <
        distribution_range``, and varies by less than a millionth of the gradient that varies most. Every loss is more
        than twice its first value for ``patience`` steps in a row.
    Not a number:
        Variances, percentiles and losses that are NaN or infinite are skipped (see ``exploding_tensor``); with a
        smallest variance of 0 the ratio is infinite.
    Blind spots:
        After the first ``steps`` it is silent. Percentiles are those of a sample of 4,096 elements; those of vectors
        and of fewer than 20 elements, and gradients that are mostly 0, are not evaluated. Signals that fade evenly by
        less than ``threshold`` from layer to layer are not detected, whatever the depth: an initialization by PyTorch's
        defaults loses a factor of six per layer.
    Args:
        activation_inputs_regex: Regular expression (``re.search``) for the inputs of activations; a pattern such as
            ``.*relu_input`` also selects the inputs of all modules of that kind.
        threshold: Largest ratio of variances from layer to layer that is not a finding, >= 1.
        distribution_range: Smallest distance of a gradient's 5th and 95th percentile, >= 0, in the unit of the
            gradient.
        patience: Steps in a row with a risen loss, >= 1.
        steps: Number of first steps that are evaluated, >= 1.
    Source:
        SageMaker developer guide, "PoorWeightInitialization".
    """

    explains: ClassVar[tuple[str, ...]] = (
        "vanishing_gradient",
        "dead_relu",
        "saturated_activation",
        "loss_at_start",
        "diverging_loss",
        "loss_not_decreasing",
    )

    activation_inputs_regex: str = ".*relu_input"
    threshold: Annotated[float, msgspec.Meta(ge=1)] = 10.0
    distribution_range: NonNegativeFloat = 0.001
    patience: PositiveInt = 5
    steps: PositiveInt = 10

    def check(self) -> None:
        check_pattern(self.name, "activation_inputs_regex", self.activation_inputs_regex)

    def needs(self) -> Needs:
        end, modes = self.steps, ("train",)
        return Needs(
            (
                *select((), (self.activation_inputs_regex,), ("variance",), modes=modes, end=end),
                *select(("gradients",), (), ("p5", "p95"), modes=modes, end=end),
                *select(("losses",), (), ("value",), modes=modes, end=end),
            )
        )

    @property
    def least_observations(self) -> int:
        return min(self.patience + 1, self.steps)

    def remember(self, memory: Any, window: Window) -> _Known:
        known: _Known = memory or _Known()
        variances = window.readings("variance", where=_is_finite)
        for worker in dict.fromkeys(reading.worker for reading in variances):
            is_wide = self._widest(variances, worker) is not None
            known.spread[worker] = known.spread.get(worker, 0) + 1 if is_wide else 0
        ranges = _ranges(window)
        widest = _widest_ranges(ranges)
        for reading, distance in ranges:
            key = (reading.worker, reading.tensor)
            is_narrow = distance < min(self.distribution_range, _NARROW * widest[reading.worker])
            known.narrow[key] = known.narrow.get(key, 0) + 1 if is_narrow else 0
        for reading in window.readings("value", where=_is_finite):
            losses = known.losses.setdefault((reading.worker, reading.tensor), _FirstLosses(reading.value))
            losses.high = losses.high + 1 if reading.value > _RISE * losses.first > 0 else 0
        return known

    def evaluate(self, window: Window) -> Verdict:
        variances = window.readings("variance", where=_is_finite)
        ranges = _ranges(window)
        losses = window.readings("value", where=_is_finite)
        known: _Known = window.memory
        finding = self._variances(variances, known) or self._gradients(ranges, known) or self._losses(losses, known)
        if finding is not None:
            return finding
        if len(variances) < 2 and not ranges and not losses:
            return Undecided(
                "at this step there are no finite variances of two layers' inputs, percentiles of gradients or losses"
            )
        return clear_if_complete(window, "captured data")

    def _variances(self, readings: list[TensorReading], known: _Known) -> Fired | None:
        for worker in dict.fromkeys(reading.worker for reading in readings):
            pair = self._widest(readings, worker)
            if pair is None or known.spread[worker] < _CAPTURES:
                continue
            large, small = pair
            ratio = _ratio(large, small)
            return fired(
                f"the variances of the activations' inputs differ {significant(ratio)}-fold: "
                f"{significant(large.value)} in "
                f"{large.tensor}, {significant(small.value)} in {small.tensor}",
                large,
                small,
                advice=_ACTIVATIONS_ADVICE,
                evidence={"largest": large.value, "smallest": small.value, "ratio": ratio, "threshold": self.threshold},
                worker=worker,
            )
        return None

    def _widest(self, readings: list[TensorReading], worker: str) -> tuple[TensorReading, TensorReading] | None:
        """Return the two layers of a worker that differ most, the larger first, if they differ too much."""
        inputs = [reading for reading in readings if reading.worker == worker]
        wide = []
        for at, one in enumerate(inputs):
            for distance, other in enumerate(reversed(inputs[:at]), start=1):
                large, small = (one, other) if one.value > other.value else (other, one)
                if _ratio(large, small) > self.threshold**distance:
                    wide.append((large, small))
        return max(wide, key=lambda pair: _ratio(*pair)) if wide else None

    def _gradients(self, ranges: list[tuple[TensorReading, float]], known: _Known) -> Fired | None:
        narrow = sorted(
            (
                (reading, distance)
                for reading, distance in ranges
                if known.narrow[reading.worker, reading.tensor] >= _CAPTURES
            ),
            key=lambda gradient: gradient[1],
        )
        if not narrow:
            return None
        worst, distance = narrow[0]
        widest = _widest_ranges(ranges)[worst.worker]
        return fired(
            f"{worst.tensor.removeprefix('gradient/')}: the 5th and 95th percentile of its gradient are "
            f"{significant(distance)} apart, those of another one {significant(widest)}",
            *(reading.tensor for reading, _ in narrow),
            advice=_GRADIENTS_ADVICE,
            evidence={"range": distance, "widest": widest, "threshold": self.distribution_range},
            noun="tensor",
            count="gradients",
            worker=worst.worker,
        )

    def _losses(self, readings: list[TensorReading], known: _Known) -> Fired | None:
        if not readings or any(losses.high < self.patience for losses in known.losses.values()):
            return None
        reading = readings[0]
        losses = known.losses[reading.worker, reading.tensor]
        return fired(
            f"{reading.tensor} has risen for {losses.high} of the first steps: {significant(reading.value)} now, "
            f"{significant(losses.first)} at first",
            reading,
            advice=_LOSSES_ADVICE,
            evidence={"now": reading.value, "first": losses.first, "steps": losses.high, "patience": self.patience},
        )


def _ranges(window: Window) -> list[tuple[TensorReading, float]]:
    """Return the distance of the 5th and 95th percentile of each gradient, if it has enough elements other than 0."""
    low = {(reading.worker, reading.tensor): reading.value for reading in window.readings("p5", where=_is_finite)}
    ranges = [
        (reading, reading.value - low[reading.worker, reading.tensor])
        for reading in window.readings("p95", where=_is_finite)
        if len(reading.shape) > 1 and reading.elements >= _MIN_ELEMENTS and (reading.worker, reading.tensor) in low
    ]
    return [(reading, distance) for reading, distance in ranges if distance > 0]


def _widest_ranges(ranges: list[tuple[TensorReading, float]]) -> dict[str, float]:
    """Return the distance of the gradient that varies most, by worker."""
    widest: dict[str, float] = {}
    for reading, distance in ranges:
        widest[reading.worker] = max(distance, widest.get(reading.worker, 0.0))
    return widest


def _ratio(large: TensorReading, small: TensorReading) -> float:
    if small.value:
        return large.value / small.value
    return math.inf if large.value else 1.0


def _is_finite(values: Floats) -> Choices:
    return abs(values) < math.inf
