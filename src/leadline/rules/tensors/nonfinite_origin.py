"""The rule nonfinite_origin."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.records.formatting import significant
from leadline.records.names import WHOLE_DATA
from leadline.rules import Advice, Fired, Needs, Rule, Severity, TensorNeed, TensorReading, Verdict, Window
from leadline.rules.messages import clear_if_complete, fired

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_PARAMETERS = ("weights", "biases")
_FORWARD = ("layers", "inputs")
_NORM: Final = re.compile(r"(^|/)gradient_norm$")
_PRODUCTS: Final = re.compile(r"(linear|dense|bilinear|conv\w*)_output")
_GREW: Final = 10.0
"""How many times larger a loss or norm is before a non-finite value where the updates have made it."""
_FIRST: Final = 20
_LATEST: Final = 3
_RATE_ADVICE: Final = Advice(
    "a tenth of the learning rate, a warm-up over the first few hundred steps, or clip gradients ({clip_norm_to} 1.0), "
    "from the last checkpoint before the growth; usually the updates are too large, so that values grow until they "
    "overflow"
)
_EARLIER_ADVICE: Final = Advice(
    "the last checkpoint before this step, and the same command with --on exploding_tensor=stop_training, which "
    "captures every step and finds the origin; usually an earlier gradient was not finite while its loss was"
)
_BATCH_ADVICE: Final = Advice(
    "nan_to_num or a filter where the data are read, and inspecting this batch; usually missing values, or a "
    "normalization by a standard deviation of zero"
)
_DATA_ADVICE: Final = Advice(
    "nan_to_num or a filter on what fit is given, and numpy.argwhere(~numpy.isfinite(x)), which finds the rows; "
    "usually missing values, or a normalization by a standard deviation of zero"
)
_OVERFLOW_ADVICE: Final = Advice(
    "the sizes of this module's weights and inputs (leadline tensors --statistic abs_max): their sums are beyond the "
    "range of {dtype}; usually half precision overflowed there (float32 for this module), or the learning rate is so "
    "high that weights have grown without bound",
    "dtype",
)
_MODULE_ADVICE: Final = Advice(
    "checking what this module divides by or takes the log of, or float32 for this module; usually half precision "
    "overflowed there, or a division by zero"
)
_BETWEEN_ADVICE: Final = Advice(
    "checking what the model computes before this module, with an epsilon in quotients and logs; usually a division, "
    "log or power written outside of modules"
)
_LOSS_ADVICE: Final = Advice(
    "checking what the loss computes: a log, square root or quotient needs an epsilon; usually it takes one of them of "
    "zero"
)
_UNKNOWN_ADVICE: Final = Advice(
    "the same command with --capture layers:every=1,start={start} --on nonfinite_origin=stop_training, which names "
    "the module or the batch, and inspecting this batch; usually a division by zero, the log of zero or NaN in the "
    "batch",
    "start",
)
_FINITE_BATCH_ADVICE: Final = Advice(
    "the same command with --capture layers:every=1,start={start} --on nonfinite_origin=stop_training, which names "
    "the module; usually a division by zero or the log of zero",
    "start",
)
_BACKWARD_ADVICE: Final = Advice(
    "an epsilon inside square roots, norms and logs behind this parameter, or clip gradients ({clip_norm_to} 1.0); "
    "usually a function was differentiated where its slope is infinite, or half precision overflowed"
)


@dataclass(slots=True)
class Growth:
    """How a loss or gradient norm has grown, as far as it was finite."""

    name: str
    first: list[float] = field(default_factory=list)
    latest: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Add a value, unless it is not finite."""
        if not math.isfinite(value):
            return
        if len(self.first) < _FIRST:
            self.first.append(abs(value))
        self.latest = [*self.latest, abs(value)][-_LATEST:]

    @property
    def start(self) -> float:
        """The level at which it started."""
        return median(self.first[: max(1, len(self.first) // 2)])

    @property
    def factor(self) -> float:
        """How many times as large it is now."""
        return max(self.latest) / self.start if self.start > 0 else 1.0

    @property
    def is_large(self) -> bool:
        """Whether it has grown by more than noise does."""
        return len(self.first) > _LATEST and self.factor > _GREW

    @property
    def words(self) -> str:
        """The growth, for a message."""
        return f"{self.name} had grown from {significant(self.start)} to {significant(max(self.latest))}"


class NonfiniteOrigin(Rule, frozen=True, kw_only=True):
    """Fires when a loss or a gradient is NaN or infinite, and names its origin.

    Why it matters:
        One step after a NaN was made it is everywhere: its presence does not tell where it came from, and the
        search for the origin takes hours.
    How it decides:
        Fires if a loss is not finite, or a gradient has a non-finite element. The origin is the first of these that
        was captured at that step: a weight that was not finite before the forward pass (then the gradient of an
        earlier step caused it); the first non-finite tensor in forward order (an output: its module made it from
        finite inputs; an input: the batch, or code between two modules); the loss; the first gradient in backward
        order, which is the last one in forward order (then the backward pass made it). The batch is the step within
        the mode, from 0.
        The advice looks at what came before: where a loss or the norm of all gradients had grown tenfold by then, the
        updates are too large, and what a module divides by is not to blame; a linear layer or a convolution divides by
        nothing, so that its sums have overflowed.
    Not a number:
        This is what the rule detects. At a step that a gradient scaler skips, the gradients are not evaluated.
    Blind spots:
        The origin is limited to the tensors that were captured at that step: activations are captured only at some
        steps, and never in compiled models; without them the origin is narrowed down to the batch, the loss, the
        backward pass or an earlier step. At such steps the batch is looked at where its loss is known before the step
        ends and the batch still exists: with PyTorch on a CPU, MXNet, and functions of TensorFlow that are called with
        it. Of Keras on TensorFlow, what ``fit`` was given is looked at as a whole, arrays of up to 256 MiB. JAX shows
        neither. Infinity in the input of a module counts as a mask and is ignored, unless it is the first input of the
        model; an output with intended infinity is reported if it comes first. The order of modules is that of their
        calls, the order of gradients that in which parameters were registered.
    Source:
        Ours; anomaly detection of PyTorch (``torch.autograd.detect_anomaly``) finds the same at a much higher cost.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = (
        "broken_metric",
        "exploding_tensor",
        "exploding_gradient",
        "loss_spike",
        "diverging_loss",
        "loss_not_decreasing",
        "weight_update_ratio",
    )

    def needs(self) -> Needs:
        losses = TensorNeed("losses", statistics=("value",), modes=("train",))
        norms = TensorNeed("gradient_norms", statistics=("value",), modes=("train",), is_optional=True)
        count, both = ("nonfinite_count",), ("nonfinite_count", "nan_count")
        gradients = TensorNeed("gradients", statistics=count, modes=("train",))
        places = dict.fromkeys(_PARAMETERS, count) | dict.fromkeys(_FORWARD, both)
        origins = (
            TensorNeed(collection, statistics=statistics, modes=("train",), is_optional=True)
            for collection, statistics in places.items()
        )
        return Needs((losses, norms, gradients, *origins))

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], Growth]:
        """Keep how losses and gradient norms have grown."""
        known: dict[tuple[str, str], Growth] = memory or {}
        for reading in window.readings("value"):
            if "losses" in reading.collections or _NORM.search(reading.tensor):
                known.setdefault((reading.worker, reading.tensor), Growth(reading.tensor)).add(reading.value)
        return known

    def evaluate(self, window: Window) -> Verdict:
        losses = [
            reading for reading in window.readings("value", where=_is_nonfinite) if "losses" in reading.collections
        ]
        counted = window.readings("nonfinite_count", where=_is_counted)
        gradients = [reading for reading in counted if "gradients" in reading.collections and not window.is_skipped]
        if not losses and not gradients:
            return clear_if_complete(window, "captured data")
        worker = (losses or gradients)[0].worker
        masks = _masks(window, counted)
        grown = [growth for (of, _), growth in window.memory.items() if of == worker and growth.is_large]
        bad = [reading for reading in (*losses, *counted) if reading.worker == worker and reading not in masks]
        return _fired(bad, window, max(grown, key=lambda growth: growth.factor, default=None))


def _masks(window: Window, counted: list[TensorReading]) -> list[TensorReading]:
    """Return module inputs with infinity but no NaN: masks, unless it is the first input of the model."""
    nans = {(reading.worker, reading.tensor) for reading in window.readings("nan_count", where=_is_counted)}
    return [
        reading
        for reading in counted
        if "layers" in reading.collections
        and "_input_" in reading.tensor
        and (reading.worker, reading.tensor) not in nans
        and not ("inputs" in reading.collections and reading.tensor.endswith("_0"))
    ]


def _is_nonfinite(values: Floats) -> Choices:
    bad: Choices = ~(abs(values) < math.inf)
    return bad


def _is_counted(counts: Floats) -> Choices:
    return counts > 0


_STEPS_BEFORE: Final = 5
"""A run that seeks the origin captures layers from so many steps before: another run may fail a little earlier."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """The origin of a non-finite value, as far as it can be determined."""

    reading: TensorReading
    place: str
    message: str
    suggestion: Advice


def _fired(bad: Sequence[TensorReading], window: Window, growth: Growth | None) -> Fired:
    origin = _find(bad, window)
    if growth is not None and origin.place in ("module", "loss", "backward pass", "earlier step"):
        origin = replace(origin, message=f"{origin.message}, after {growth.words}", suggestion=_RATE_ADVICE)
    reading = origin.reading
    others = sorted(bad, key=lambda other: other is not reading)
    return fired(
        origin.message,
        *others,
        advice=origin.suggestion,
        evidence={
            "origin": origin.place,
            "tensor": reading.tensor,
            "batch": reading.mode_step,
            "nonfinite": int(reading.value) if reading.statistic == "nonfinite_count" else 1,
            "elements": reading.elements,
            "tensors": len({reading.tensor for reading in bad}),
            **({"growth": growth.factor} if growth is not None else {}),
        },
        worker=reading.worker,
    )


def _find(bad: Sequence[TensorReading], window: Window) -> _Origin:
    weights = [reading for reading in bad if {"weights", "biases"} & set(reading.collections)]
    forward = [reading for reading in bad if set(_FORWARD) & set(reading.collections)]
    losses = [reading for reading in bad if "losses" in reading.collections]
    if weights:
        return _from_earlier_step(max(weights, key=_order))
    if forward:
        return _from_forward_pass(min(forward, key=_order))
    if losses:
        return _from_loss(losses[0], window)
    return _from_backward_pass(max(bad, key=_order))


def _from_earlier_step(last: TensorReading) -> _Origin:
    return _Origin(
        last,
        "earlier step",
        f"from an earlier step: {_share(last)} in {last.tensor} before the forward pass",
        _EARLIER_ADVICE,
    )


def _from_forward_pass(first: TensorReading) -> _Origin:
    module, _, side = first.tensor.rpartition("_")[0].rpartition("_")
    if WHOLE_DATA in first.collections:
        return _Origin(first, "data", f"from the data: {_share(first)} in {first.tensor}", _DATA_ADVICE)
    if "inputs" in first.collections:
        return _Origin(
            first, "batch", f"from batch {first.mode_step}: {_share(first)} in {first.tensor}", _BATCH_ADVICE
        )
    if side == "output" and _adds_products(first):
        return _Origin(
            first,
            "module",
            f"made by module {module}: {_share(first)} in {first.tensor}, from finite inputs",
            _OVERFLOW_ADVICE.given(dtype=first.dtype),
        )
    if side == "output":
        return _Origin(
            first,
            "module",
            f"made by module {module}: {_share(first)} in {first.tensor}, from finite inputs",
            _MODULE_ADVICE,
        )
    return _Origin(
        first,
        "between modules",
        f"made before {module}: {_share(first)} in {first.tensor}, all earlier tensors finite",
        _BETWEEN_ADVICE,
    )


def _from_loss(loss: TensorReading, window: Window) -> _Origin:
    number = "NaN" if math.isnan(loss.value) else "infinite"
    before = [reading for reading in window.readings("nonfinite_count") if _precedes_loss(reading)]
    if any("inputs" not in reading.collections for reading in before):
        return _Origin(
            loss, "loss", f"{loss.tensor} is {number}; no tensor captured before it was non-finite", _LOSS_ADVICE
        )
    start = max(window.step - _STEPS_BEFORE, 0)
    if before:
        return _Origin(
            loss,
            "loss",
            f"{loss.tensor} is {number} although what the model was given is finite; no layers were captured at this "
            "step, so its origin is not known",
            _FINITE_BATCH_ADVICE.given(start=start),
        )
    return _Origin(
        loss,
        "loss",
        f"{loss.tensor} is {number}; no layers were captured at this step, so its origin is not known",
        _UNKNOWN_ADVICE.given(start=start),
    )


def _precedes_loss(reading: TensorReading) -> bool:
    """Whether a tensor is one that a loss is computed from, other than labels, which are counted at more steps."""
    return bool(set(_FORWARD) & set(reading.collections)) and not {"labels", "losses"} & set(reading.collections)


def _from_backward_pass(first: TensorReading) -> _Origin:
    name = first.tensor.removeprefix("gradient/")
    return _Origin(
        first,
        "backward pass",
        f"made by the backward pass: {_share(first)} in the gradient of {name}",
        _BACKWARD_ADVICE,
    )


def _adds_products(reading: TensorReading) -> bool:
    """Whether a tensor is the output of a layer that divides by nothing."""
    return any(map(_PRODUCTS.fullmatch, reading.collections))


def _order(reading: TensorReading) -> int:
    return reading.order


def _share(reading: TensorReading) -> str:
    count = int(reading.value)
    return f"{count:,} of {reading.elements:,} elements not finite"
