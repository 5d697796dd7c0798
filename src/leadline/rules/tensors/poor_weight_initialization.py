"""The rule poor_weight_initialization."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more, check_pattern, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats, TensorReading, Window

_Steps = Annotated[int, msgspec.Meta(ge=1)]
_Key = tuple[str, str]
_Best = tuple[float, int]
"""A loss's best value, and how many saved steps have passed since."""


_FEWEST_ELEMENTS: Final = 20
"""Between the 5th and the 95th percentile of fewer lie next to all of them."""


class PoorWeightInitialization(Rule, frozen=True, kw_only=True):
    """Fires when the first steps show that signals grow or fade from layer to layer, or that nothing is learned.

    Why it matters:
        Weights that start too large or too small, or all alike, give some layers signals and gradients that others
        do not have; the training starts slowly or not at all, and no learning rate fits all layers.
    How it decides:
        At the first ``steps`` train steps, any of: the variances of the activations' inputs differ from layer to
        layer, ``largest / smallest > threshold``; a gradient hardly varies, ``p95 - p5 < distribution_range``; a
        loss has not fallen below its best for ``patience`` steps in a row.
    Not a number:
        Variances, percentiles and losses that are NaN or infinite are left out (``exploding_tensor`` is there for
        them); a smallest variance of 0 makes the ratio infinite.
    Blind spots:
        After the first ``steps`` it is silent. Percentiles are those of a sample of 4,096 elements. Losses of single
        batches are noisy, and a warm-up of the learning rate learns little at first: raise ``patience``. In wide
        layers and with a mean over a large batch healthy gradients vary by less than 0.001: lower
        ``distribution_range``. Percentiles of fewer than 20 elements say nothing and are not judged.
    Args:
        activation_inputs_regex: Regular expression (``re.search``) for the inputs of activations; a pattern such as
            ``.*relu_input`` means the inputs of all modules of that kind as well.
        threshold: Largest ratio of variances that is no finding, > 0.
        distribution_range: Least distance of a gradient's 5th and 95th percentile, >= 0, in the gradient's unit.
        patience: Steps in a row without a new best loss, >= 1.
        steps: How many steps are judged, >= 1.
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

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Best]:
        bests: dict[_Key, _Best] = dict(memory or {})
        for each in window.readings("value", where=_is_finite):
            best, since = bests.get((each.worker, each.tensor), (math.inf, -1))
            is_new = each.value < best
            bests[each.worker, each.tensor] = (each.value, 0) if is_new else (best, since + 1)
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
        return Undecided("part of what was to be captured at this step was lost") if window.is_thinned else Clear()

    def _variances(self, readings: list[TensorReading]) -> Fired | None:
        for worker in dict.fromkeys(each.worker for each in readings):
            own = [each for each in readings if each.worker == worker]
            large, small = max(own, key=_value), min(own, key=_value)
            ratio = large.value / small.value if small.value else math.inf if large.value else 1.0
            if len(own) > 1 and ratio > self.threshold:
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
                    suggestion="kaiming_normal_ weights in front of ReLU (xavier_normal_ of tanh and sigmoid), or a "
                    "normalization layer; usually the scale of the weights does not fit the layers' widths",
                    worker=worker,
                )
        return None

    def _gradients(self, ranges: list[tuple[TensorReading, float]]) -> Fired | None:
        narrow = sorted((each for each in ranges if each[1] < self.distribution_range), key=lambda each: each[1])
        if not narrow:
            return None
        worst, distance = narrow[0]
        tensors = tuple(dict.fromkeys(each.tensor for each, _ in narrow))
        return Fired(
            f"{worst.tensor.removeprefix('gradient/')}: the 5th and 95th percentile of its gradient are "
            f"{distance:.3g} apart, less than {self.distribution_range:g}" + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={"range": distance, "threshold": self.distribution_range, "gradients": len(tensors)},
            suggestion="a larger scale of the initial weights, or a normalization layer in front of it; "
            "usually the signal has faded on its way through the layers, or weights start all alike",
            worker=worst.worker,
        )

    def _losses(self, readings: list[TensorReading], bests: dict[_Key, _Best]) -> Fired | None:
        for each in readings:
            best, since = bests[each.worker, each.tensor]
            if since >= self.patience:
                return Fired(
                    f"{each.tensor} has not fallen for {since} of the first steps: {each.value:.4g} now, "
                    f"{best:.4g} at best",
                    tensors=(each.tensor,),
                    evidence={"now": each.value, "best": best, "steps_since": since, "patience": self.patience},
                    suggestion="the framework's own initialization, or a ten times higher learning rate to see whether "
                    "anything moves; usually weights start too small or alike, or the rate is too low",
                    worker=each.worker,
                )
        return None


def _ranges(window: Window) -> list[tuple[TensorReading, float]]:
    """Of each gradient whose percentiles are known: how far they are apart."""
    low = {(each.worker, each.tensor): each.value for each in window.readings("p5", where=_is_finite)}
    high = [
        each for each in window.readings("p95", where=_is_finite) if not each.shape or each.elements >= _FEWEST_ELEMENTS
    ]
    return [(each, each.value - low[each.worker, each.tensor]) for each in high if (each.worker, each.tensor) in low]


def _is_finite(values: Floats) -> Choices:
    return abs(values) < math.inf


def _value(reading: TensorReading) -> float:
    return reading.value
