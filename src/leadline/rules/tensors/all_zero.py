"""The rule all_zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from leadline.records.names import FEATURE_COLLECTIONS
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more, check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats, TensorReading, Window


class AllZero(Rule, frozen=True, kw_only=True):
    """Fires when at least a given share of a selected tensor's elements is zero.

    Why it matters:
        A tensor that is all zero carries nothing: an output that is zero passes no gradient back, a gradient that is
        zero teaches nothing, a weight that starts at zero everywhere keeps its units alike.
    How it decides:
        ``zeros / elements * 100 >= threshold``, exactly zero, for each tensor by itself; a single number has one
        element.
    Not a number:
        NaN and infinity are not zero. Of an empty tensor there is no share: it is not judged, nor are the gradients of
        a step that a gradient scaler skipped.
    Blind spots:
        Padding, masks, embeddings of unseen tokens and sparse gradients are zero by right. A tensor of tiny numbers
        (1e-30) is as useless and is not seen here.
    Args:
        collection_names: Collections whose tensors are judged, any of ``leadline.records.names.COLLECTIONS`` and
            those of modules (``relu_output``); these or ``tensor_regex`` must be given.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are judged as well.
        threshold: Share of zeros at which it fires, in percent, > 0 and <= 100.
    Source:
        SageMaker developer guide, "AllZero".
    """

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    threshold: Annotated[float, msgspec.Meta(gt=0, le=100)] = 100.0

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex, is_required=True)

    def needs(self) -> Needs:
        return Needs(select(self.collection_names, self.tensor_regex, ("zero_ratio", "value")))

    def evaluate(self, window: Window) -> Verdict:
        bad = window.readings("zero_ratio", where=self._is_zero) + window.readings("value", where=_is_zero_number)
        if window.is_skipped:
            bad = [each for each in bad if "gradients" not in each.collections]
        if bad:
            return self._fired(bad)
        if not (window.readings("zero_ratio", where=_is_known) or window.readings("value")):
            return Undecided("the selected tensors had no elements at this step")
        return Undecided("part of the selected tensors at this step was lost") if window.is_thinned else Clear()

    def _is_zero(self, shares: Floats) -> Choices:
        return shares * 100.0 >= self.threshold

    def _fired(self, bad: list[TensorReading]) -> Fired:
        worst = max(bad, key=_percent)
        tensors = tuple(dict.fromkeys(each.tensor for each in (worst, *bad)))
        percent = _percent(worst)
        seen = "is 0" if worst.statistic == "value" else f"{percent:.4g} % of {worst.elements:,} elements are zero"
        return Fired(
            f"{worst.tensor}: {seen}" + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={"zero_percent": percent, "threshold": self.threshold, "tensors": len(tensors)},
            suggestion=_suggestion(worst),
            worker=worst.worker,
        )


def _percent(reading: TensorReading) -> float:
    return 100.0 if reading.statistic == "value" else reading.value * 100.0


def _is_known(values: Floats) -> Choices:
    known: Choices = values == values
    return known


def _is_zero_number(values: Floats) -> Choices:
    zero: Choices = values == 0.0
    return zero


def _suggestion(reading: TensorReading) -> str:
    if "gradients" in reading.collections:
        return (
            "dead_relu and saturated_activation on the layers behind it, or a look whether the loss depends on this "
            "parameter; usually activations in front are dead, or a detach() or mask cuts the gradient off"
        )
    if {"weights", "biases"} & set(reading.collections):
        return (
            "an initialization other than zero (kaiming_uniform_), or a lower weight decay; "
            "usually it was initialized with zeros, or decayed to them"
        )
    if FEATURE_COLLECTIONS & set(reading.collections):
        return (
            "a training without the feature, or a look whether it varies at all; "
            "usually it is constant, missing throughout, or another feature says the same"
        )
    return (
        "dead_relu on the layer, or a look at what it is given (a mask, a scale, a loader that gives zeros); "
        "usually the units are dead, or the input is empty"
    )
