"""The rule all_zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.records.names import FEATURE_COLLECTIONS
from leadline.rules import Advice, Fired, Needs, TensorReading, TensorRule, Window
from leadline.rules.messages import fired
from leadline.rules.selection import check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_MIN_ELEMENTS: Final = 20
_FIRST_STEPS: Final = 3
_OF_PARAMETERS: Final = frozenset({"weights", "biases", "gradients"})
_GRADIENTS_ADVICE: Final = Advice(
    "dead_relu and saturated_activation on the layers behind it, or checking whether the loss depends on this "
    "parameter; usually activations in front are dead, or {cut} or mask cuts off the gradient"
)
_WEIGHTS_ADVICE: Final = Advice(
    "an initialization other than zero ({he_uniform}), or a lower weight decay; usually it was initialized with zeros, "
    "or decayed to them"
)
_FEATURES_ADVICE: Final = Advice(
    "a training without the feature, or checking whether it varies at all; usually it is constant, always missing, or "
    "redundant with another feature"
)
_ADVICE: Final = Advice(
    "dead_relu on the layer, or inspecting its input (a mask, a scale, a loader that returns zeros); usually the units "
    "are dead, or the input is empty"
)


class AllZero(TensorRule[TensorReading], frozen=True, kw_only=True):
    """Fires when at least a given share of a selected tensor's elements is zero.

    Why it matters:
        A tensor of zeros carries no information: a zero output passes no gradient back, a zero gradient trains
        nothing, and weights that are all zero at the start keep their units identical.
    How it decides:
        Fires if ``zeros / elements * 100 >= threshold``, counting exact zeros, for each tensor separately.
        Tensors of fewer than 20 elements or of whole numbers are not evaluated; a scalar, such as a metric, fires if it
        is 0. Parameters and their gradients are evaluated from the fourth train step on: biases and adapters are
        initialized with zeros, and keep the gradients behind them at 0 for one update.
    Not a number:
        NaN and infinity are not zero. Empty tensors, and the gradients of a step that a gradient scaler skipped,
        are not evaluated.
    Blind spots:
        Padding, masks, embeddings of unseen tokens and sparse gradients contain zeros by design. A tensor of tiny
        numbers (1e-30) is just as useless and is not detected.
    Args:
        collection_names: Collections whose tensors are evaluated, any of ``leadline.records.names.COLLECTIONS`` and
            those of modules (``relu_output``); these or ``tensor_regex`` must be set.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are evaluated as well.
        threshold: Share of zeros at which it fires, in percent, > 0 and <= 100.
    Source:
        SageMaker developer guide, "AllZero".
    """

    data: ClassVar[str] = "selected tensors"
    untested: ClassVar[str] = "the selected tensors had no elements at this step"

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    threshold: Annotated[float, msgspec.Meta(gt=0, le=100)] = 100.0

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex, is_required=True)

    def needs(self) -> Needs:
        return Needs(select(self.collection_names, self.tensor_regex, ("zero_ratio", "value")))

    def find(self, window: Window) -> list[TensorReading] | None:
        zeros = [reading for reading in window.readings("zero_ratio", where=self._is_zero) if _is_evaluated(reading)]
        bad = zeros + window.readings("value", where=_is_zero_number)
        if window.is_skipped:
            bad = [reading for reading in bad if "gradients" not in reading.collections]
        is_tested = bad or window.readings("zero_ratio", where=_is_known) or window.readings("value")
        return bad if is_tested else None

    def _is_zero(self, shares: Floats) -> Choices:
        return shares * 100.0 >= self.threshold

    def finding(self, bad: Sequence[TensorReading]) -> Fired:
        worst = max(bad, key=_percent)
        zeros = f"{significant(_percent(worst))} % of {worst.elements:,} elements are zero"
        detail = "is 0" if worst.statistic == "value" else zeros
        return fired(
            f"{worst.tensor}: {detail}",
            worst,
            *bad,
            advice=_suggestion(worst),
            evidence={"zero_percent": _percent(worst), "threshold": self.threshold},
            noun="tensor",
            count="tensors",
        )


def _is_evaluated(reading: TensorReading) -> bool:
    if (reading.shape and reading.elements < _MIN_ELEMENTS) or "float" not in reading.dtype:
        return False
    return reading.mode_step >= _FIRST_STEPS or _OF_PARAMETERS.isdisjoint(reading.collections)


def _percent(reading: TensorReading) -> float:
    return 100.0 if reading.statistic == "value" else reading.value * 100.0


def _is_known(values: Floats) -> Choices:
    known: Choices = values == values
    return known


def _is_zero_number(values: Floats) -> Choices:
    zero: Choices = values == 0.0
    return zero


def _suggestion(reading: TensorReading) -> Advice:
    if "gradients" in reading.collections:
        return _GRADIENTS_ADVICE
    if {"weights", "biases"} & set(reading.collections):
        return _WEIGHTS_ADVICE
    if FEATURE_COLLECTIONS & set(reading.collections):
        return _FEATURES_ADVICE
    return _ADVICE
