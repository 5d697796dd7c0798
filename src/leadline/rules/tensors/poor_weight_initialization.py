"""The rule poor_weight_initialization."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Fired, Undecided, Verdict
from leadline.rules.messages import and_more, clear_if_complete
from leadline.rules.rule import Rule
from leadline.rules.selection import check_pattern, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats, TensorReading, Window

_Steps = Annotated[int, msgspec.Meta(ge=1)]
_Key = tuple[str, str]
_Best = tuple[float, int]
"""The best value of a loss, and the number of saved steps since."""


_MIN_ELEMENTS: Final = 20
"""Percentiles of fewer elements are meaningless."""


class PoorWeightInitialization(Rule, frozen=True, kw_only=True):
    """Fires when the first steps show that signals grow or fade from layer to layer, or that nothing is learned.

    Why it matters:
        Weights that start too large, too small or all equal lead to very different signals and gradients in
        different layers; the training starts slowly or not at all, and no learning rate fits all layers.
    How it decides:
        Fires at the first ``steps`` train steps if any of these conditions holds: the variances of the activations'
        inputs differ between layers, ``largest / smallest > threshold``; a gradient hardly varies, ``p95 - p5 <
        distribution_range``; a loss has not fallen below its best for ``patience`` steps in a row.
    Not a number:
        Variances, percentiles and losses that are NaN or infinite are skipped (see ``exploding_tensor``); with a
        smallest variance of 0 the ratio is infinite.
    Blind spots:
        After the first ``steps`` it is silent. Percentiles are those of a sample of 4,096 elements. Losses of
        single batches are noisy, and little is learned during a warm-up of the learning rate: raise ``patience``.
        In wide layers and with a mean over a large batch healthy gradients vary by less than 0.001: lower
        ``distribution_range``. Percentiles of fewer than 20 elements are not evaluated.
    Args:
        activation_inputs_regex: Regular expression (``re.search``) for the inputs of activations; a pattern such as
            ``.*relu_input`` also selects the inputs of all modules of that kind.
        threshold: Largest ratio of variances that is not a finding, > 0.
        distribution_range: Smallest distance of a gradient's 5th and 95th percentile, >= 0, in the unit of the
            gradient.
        patience: Steps in a row without a new best loss, >= 1.
        steps: Number of first steps that are evaluated, >= 1.
    Source:
        SageMaker developer guide, "PoorWeightInitialization".
    """

    explains: ClassVar[tuple[str, ...]] = (
        "vanishing_gradient",
        "dead_relu",
        "saturated_activation",
        "loss_not_decreasing",
    )

    activation_inputs_regex: str = ".*relu_input"
    threshold: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    distribution_range: Annotated[float, msgspec.Meta(ge=0)] = 0.001
    patience: _Steps = 5
    steps: _Steps = 10

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

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Best]:
        bests: dict[_Key, _Best] = dict(memory or {})
        for reading in window.readings("value", where=_is_finite):
            best, since = bests.get((reading.worker, reading.tensor), (math.inf, -1))
            is_new = reading.value < best
            bests[reading.worker, reading.tensor] = (reading.value, 0) if is_new else (best, since + 1)
        return bests

    def evaluate(self, window: Window) -> Verdict:
        variances = window.readings("variance", where=_is_finite)
        ranges = _ranges(window)
        losses = window.readings("value", where=_is_finite)
        fired = self._variances(variances) or self._gradients(ranges) or self._losses(losses, window.memory)
        if fired is not None:
            return fired
        if len(variances) < 2 and not ranges and not losses:
            return Undecided("no activations of two layers, no gradients and no losses were finite at this step")
        return clear_if_complete(window, "captured data")

    def _variances(self, readings: list[TensorReading]) -> Fired | None:
        for worker in dict.fromkeys(reading.worker for reading in readings):
            inputs = [reading for reading in readings if reading.worker == worker]
            large, small = max(inputs, key=_value), min(inputs, key=_value)
            ratio = large.value / small.value if small.value else math.inf if large.value else 1.0
            if len(inputs) > 1 and ratio > self.threshold:
                return Fired(
                    f"the variances of the activations' inputs differ {ratio:.3g}-fold: {large.value:.3g} in "
                    f"{large.tensor}, {small.value:.3g} in {small.tensor}",
                    tensors=(large.tensor, small.tensor),
                    evidence={
                        "largest": large.value,
                        "smallest": small.value,
                        "ratio": ratio,
                        "threshold": self.threshold,
                    },
                    suggestion="kaiming_normal_ weights in front of ReLU (xavier_normal_ for tanh and sigmoid), or a "
                    "normalization layer; usually the scale of the weights does not fit the layers' widths",
                    worker=worker,
                )
        return None

    def _gradients(self, ranges: list[tuple[TensorReading, float]]) -> Fired | None:
        narrow = sorted(
            (gradient for gradient in ranges if gradient[1] < self.distribution_range), key=lambda gradient: gradient[1]
        )
        if not narrow:
            return None
        worst, distance = narrow[0]
        tensors = tuple(dict.fromkeys(reading.tensor for reading, _ in narrow))
        return Fired(
            f"{worst.tensor.removeprefix('gradient/')}: the 5th and 95th percentile of its gradient are "
            f"{distance:.3g} apart, less than {self.distribution_range:g}" + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={"range": distance, "threshold": self.distribution_range, "gradients": len(tensors)},
            suggestion="a larger scale of the initial weights, or a normalization layer in front of it; "
            "usually the signal fades on its way through the layers, or all weights start equal",
            worker=worst.worker,
        )

    def _losses(self, readings: list[TensorReading], bests: dict[_Key, _Best]) -> Fired | None:
        for reading in readings:
            best, since = bests[reading.worker, reading.tensor]
            if since >= self.patience:
                return Fired(
                    f"{reading.tensor} has not fallen for {since} of the first steps: {reading.value:.4g} now, "
                    f"{best:.4g} at best",
                    tensors=(reading.tensor,),
                    evidence={"now": reading.value, "best": best, "steps_since": since, "patience": self.patience},
                    suggestion="the framework's own initialization, or a ten times higher learning rate to see whether "
                    "anything changes; usually weights start too small or equal, or the rate is too low",
                    worker=reading.worker,
                )
        return None


def _ranges(window: Window) -> list[tuple[TensorReading, float]]:
    """Return the distance of the 5th and 95th percentile of each gradient."""
    low = {(reading.worker, reading.tensor): reading.value for reading in window.readings("p5", where=_is_finite)}
    high = [
        reading
        for reading in window.readings("p95", where=_is_finite)
        if not reading.shape or reading.elements >= _MIN_ELEMENTS
    ]
    return [
        (reading, reading.value - low[reading.worker, reading.tensor])
        for reading in high
        if (reading.worker, reading.tensor) in low
    ]


def _is_finite(values: Floats) -> Choices:
    return abs(values) < math.inf


def _value(reading: TensorReading) -> float:
    return reading.value
