"""The rule nonfinite_origin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats, TensorReading, Window

_PARAMETERS = ("gradients", "weights", "biases")
_FORWARD = ("layers", "inputs")


class NonfiniteOrigin(Rule, frozen=True, kw_only=True):
    """Fires when a loss or a gradient is NaN or infinite, and says where it was made.

    Why it matters:
        A NaN is everywhere one step after it was made: that it is there says nothing about where it comes from,
        and the search for it is what takes the hours.
    How it decides:
        It fires when a loss is not finite, or a gradient has an element that is not. Of what was captured at that
        step the first of these is the origin: a weight that was not finite before the forward pass (then an earlier
        step's gradient brought it); the first tensor in forward order that is not finite (an output: its module made
        it from finite inputs; an input: the batch, or what is computed between two modules); the loss; the first
        gradient in backward order, which is the last in forward order (then the backward pass made it). The batch is
        the step within the mode, from 0.
    Not a number:
        Is what it looks for. At a step that a gradient scaler skips the gradients are not judged.
    Blind spots:
        It names what was captured at that step: activations are captured now and then, and never of compiled models;
        without them the origin is narrowed down to the loss, the backward pass or an earlier step. Infinity that a
        module is given is taken for a mask, and let pass, unless it is the model's first input; one that a module gives
        on purpose is named where it comes first. The order of modules is that in which they were called, that of
        gradients the one in which parameters were registered.
    Args:
    Source:
        Ours; anomaly detection of PyTorch (``torch.autograd.detect_anomaly``) looks for the same at a much higher
        price.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "exploding_gradient",
        "loss_spike",
        "loss_not_decreasing",
        "weight_update_ratio",
    )

    def needs(self) -> Needs:
        losses = TensorNeed("losses", statistics=("value",), modes=("train",))
        counts = (TensorNeed(each, statistics=("nonfinite_count",), modes=("train",)) for each in _PARAMETERS)
        both = ("nonfinite_count", "nan_count")
        return Needs((losses, *counts, *(TensorNeed(each, statistics=both, modes=("train",)) for each in _FORWARD)))

    def evaluate(self, window: Window) -> Verdict:
        losses = window.readings("value", where=_is_nonfinite)
        counted = window.readings("nonfinite_count", where=_is_counted)
        gradients = [each for each in counted if "gradients" in each.collections and not window.is_skipped]
        if not losses and not gradients:
            return Undecided("part of what was to be captured at this step was lost") if window.is_thinned else Clear()
        worker = (losses or gradients)[0].worker
        masks = _masks(window, counted)
        return _fired([each for each in (*losses, *counted) if each.worker == worker and each not in masks], window)


def _masks(window: Window, counted: list[TensorReading]) -> list[TensorReading]:
    """What modules were given that holds infinity and no NaN: masks, unless it is the first that the model is given."""
    nans = {(each.worker, each.tensor) for each in window.readings("nan_count", where=_is_counted)}
    return [
        each
        for each in counted
        if "layers" in each.collections
        and "_input_" in each.tensor
        and (each.worker, each.tensor) not in nans
        and not ("inputs" in each.collections and each.tensor.endswith("_0"))
    ]


def _is_nonfinite(values: Floats) -> Choices:
    bad: Choices = ~(abs(values) < math.inf)
    return bad


def _is_counted(counts: Floats) -> Choices:
    return counts > 0


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where it was made, as far as can be told."""

    reading: TensorReading
    place: str
    said: str
    suggestion: str


def _fired(bad: Sequence[TensorReading], window: Window) -> Fired:
    origin = _find(bad)
    reading = origin.reading
    others = sorted(bad, key=lambda each: each is not reading)
    return Fired(
        f"{origin.said}, at step {window.step}",
        tensors=tuple(dict.fromkeys(each.tensor for each in others)),
        evidence={
            "origin": origin.place,
            "tensor": reading.tensor,
            "batch": reading.mode_step,
            "nonfinite": int(reading.value) if reading.statistic == "nonfinite_count" else 1,
            "elements": reading.elements,
            "tensors": len({each.tensor for each in bad}),
        },
        suggestion=origin.suggestion,
        worker=reading.worker,
    )


def _find(bad: Sequence[TensorReading]) -> _Origin:
    weights = [each for each in bad if {"weights", "biases"} & set(each.collections)]
    forward = [each for each in bad if set(_FORWARD) & set(each.collections)]
    losses = [each for each in bad if "losses" in each.collections]
    if weights:
        return _of_earlier_step(max(weights, key=_order))
    if forward:
        return _of_forward(min(forward, key=_order))
    if losses:
        return _of_loss(losses[0])
    return _of_backward(max(bad, key=_order))


def _of_earlier_step(last: TensorReading) -> _Origin:
    return _Origin(
        last,
        "earlier step",
        f"an earlier step made it: {_share(last)} in {last.tensor} before the forward pass",
        "the last checkpoint before this step, and exploding_tensor=stop_training so that every step is looked at; "
        "usually an earlier gradient was not finite while its loss was",
    )


def _of_forward(first: TensorReading) -> _Origin:
    module, _, side = first.tensor.rpartition("_")[0].rpartition("_")
    if "inputs" in first.collections:
        return _Origin(
            first,
            "batch",
            f"batch {first.mode_step} came with it: {_share(first)} in {first.tensor}",
            "nan_to_num or a filter where the data are read, and a look at this batch; "
            "usually missing values, or a normalization by a standard deviation of zero",
        )
    if side == "output":
        return _Origin(
            first,
            "module",
            f"module {module} made it: {_share(first)} in {first.tensor}, from finite inputs",
            "a look at what this module divides by or takes the log of, or float32 for it alone; "
            "usually half precision overflowed there, or a division by zero",
        )
    return _Origin(
        first,
        "between modules",
        f"made in front of {module}: {_share(first)} in {first.tensor}, all before it finite",
        "a look at what the model computes in front of this module, with an epsilon in quotients and logs; "
        "usually a division, log or power written outside of modules",
    )


def _of_loss(loss: TensorReading) -> _Origin:
    number = "NaN" if math.isnan(loss.value) else "infinite"
    return _Origin(
        loss,
        "loss",
        f"{loss.tensor} is {number}; nothing else that was captured was before it",
        "--capture layers:every=1 over the steps before it to see which module, and a look at this batch; "
        "usually the loss takes a log, square root or quotient of zero, or the batch holds NaN",
    )


def _of_backward(first: TensorReading) -> _Origin:
    name = first.tensor.removeprefix("gradient/")
    return _Origin(
        first,
        "backward pass",
        f"the backward pass made it: {_share(first)} in the gradient of {name}",
        "an epsilon inside square roots, norms and logs behind this parameter, or clip gradients (clip_grad_norm_ to "
        "1.0); usually a function was differentiated where its slope is infinite, or half precision overflowed",
    )


def _order(reading: TensorReading) -> int:
    return reading.order


def _share(reading: TensorReading) -> str:
    count = int(reading.value)
    return f"{count:,} of {reading.elements:,} elements not finite"
