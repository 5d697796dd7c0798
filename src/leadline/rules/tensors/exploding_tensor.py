"""The rule exploding_tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from leadline.records.names import is_module_collection
from leadline.rules import Advice, Needs, Rule, Severity, TensorReading, Verdict, Window
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_STATISTICS = ("nonfinite_count", "nan_count", "value")
_GRADIENTS = frozenset({"gradients", "gradient_norms"})
_LOSSES_ADVICE: Final = Advice(
    "a tenth of the learning rate, or clip gradients ({clip_norm_to} 1.0); usually the rate is too high, or the loss "
    "takes a log, square root or quotient of zero"
)
_EVALUATION_ADVICE: Final = Advice(
    "a look at the data of the evaluation, at half precision in it, and at running averages of batch normalization; "
    "usually these have been NaN since a batch that was not finite, or the update just before made weights NaN"
)
_GRADIENTS_ADVICE: Final = Advice(
    "clip gradients ({clip_norm_to} 1.0), or {wide_precision} in place of plain float16; usually half precision "
    "overflowed, or the loss had a spike"
)
_ADVICE: Final = Advice(
    "the last good checkpoint with a lower learning rate, and inspecting the gradients before this step; usually an "
    "earlier step's non-finite gradient reached it"
)


class ExplodingTensor(Rule, frozen=True, kw_only=True):
    """Fires when a selected tensor contains NaN or infinity.

    Why it matters:
        One NaN in a gradient is in every weight after the next step and in every later loss; all further training
        is lost, and a checkpoint of it is useless.
    How it decides:
        Fires if the count of NaN and infinite elements of a tensor is above 0 (with ``only_nan``: of NaN only), or
        if a scalar is NaN or infinite. Elements are counted, never inferred from a sum or norm, which may overflow
        on healthy data. At a step that a gradient scaler skips, the gradients and their norms are not evaluated:
        the scaler finds its scale by occasional overflows. Without a selection, infinity in module inputs and
        outputs is ignored, but not NaN, since masks added to attention scores are infinite by design; and metrics
        are not evaluated, since scripts log values such as ``best=inf``.
    Not a number:
        This is what the rule detects.
    Blind spots:
        Only captured steps are evaluated: a NaN can appear and disappear between two of them (an action can raise
        the capture to every step). The rule shows where a NaN is, not where the first one was made.
    Args:
        collection_names: Collections whose tensors are evaluated, any of ``leadline.records.names.COLLECTIONS``;
            without these and ``tensor_regex``: everything that is captured.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are evaluated as well.
        only_nan: Evaluate only NaN, and ignore infinity (true or false).
    Source:
        SageMaker developer guide, "ExplodingTensor"; the counts are ours.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = (
        "broken_metric",
        "gradient_clipping",
        "exploding_gradient",
        "loss_spike",
        "dead_relu",
        "saturated_activation",
        "output_collapse",
        "no_learning",
        "class_imbalance",
        "confusion",
    )

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    only_nan: bool = False

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex)

    def needs(self) -> Needs:
        collections = self.collection_names or (() if self.tensor_regex else ("all",))
        return Needs(select(collections, self.tensor_regex, _STATISTICS))

    def evaluate(self, window: Window) -> Verdict:
        numbers = self._judged(window, window.readings("value", where=self._is_bad_number))
        arrays = self._arrays(window, "nan_count" if self.only_nan else "nonfinite_count")
        if not numbers and not arrays:
            return clear_if_complete(window, "captured data")
        nans = {(reading.worker, reading.tensor): reading.value for reading in self._arrays(window, "nan_count")}
        bad = [*numbers, *arrays]
        first = bad[0]
        message = _describe(first, nans.get((first.worker, first.tensor), 0.0), self.only_nan)
        return fired(
            message,
            *bad,
            noun="tensor",
            advice=_suggestion(first),
            evidence=self._evidence(numbers, arrays, sum(nans.values())),
        )

    def _arrays(self, window: Window, statistic: str) -> list[TensorReading]:
        readings = self._judged(window, window.readings(statistic, where=_is_counted))
        if statistic == "nan_count" or self.collection_names or self.tensor_regex:
            return readings
        nans = {(reading.worker, reading.tensor) for reading in window.readings("nan_count", where=_is_counted)}
        return [
            reading for reading in readings if not _may_be_mask(reading) or (reading.worker, reading.tensor) in nans
        ]

    def _judged(self, window: Window, readings: list[TensorReading]) -> list[TensorReading]:
        """Filter out gradients of a step that a gradient scaler skipped, and metrics unless they are selected."""
        if not self.collection_names and not self.tensor_regex:
            readings = [reading for reading in readings if "metrics" not in reading.collections]
        return [reading for reading in readings if not (window.is_skipped and _GRADIENTS & set(reading.collections))]

    def _is_bad_number(self, values: Floats) -> Choices:
        is_nan: Choices = values != values
        return is_nan if self.only_nan else is_nan | (abs(values) == math.inf)

    def _evidence(
        self, numbers: Sequence[TensorReading], arrays: Sequence[TensorReading], nans: float
    ) -> dict[str, object]:
        evidence: dict[str, object] = {reading.tensor: reading.value for reading in numbers[:5]}
        if arrays:
            elements = sum(reading.elements for reading in arrays)
            bad = int(sum(reading.value for reading in arrays))
            evidence |= {"nonfinite_count": bad, "nan_count": int(nans), "elements": elements}
        return evidence


def _may_be_mask(reading: TensorReading) -> bool:
    return any(is_module_collection(collection) for collection in reading.collections)


def _is_evaluated_loss(reading: TensorReading) -> bool:
    return reading.mode == "eval" and "losses" in reading.collections


def _is_counted(counts: Floats) -> Choices:
    return counts > 0


def _describe(reading: TensorReading, nans: float, only_nan: bool) -> str:
    if reading.statistic == "value":
        where = " in an evaluation" if _is_evaluated_loss(reading) else ""
        return f"{reading.tensor} is {'NaN' if math.isnan(reading.value) else 'infinite'}{where}"
    count, what = int(reading.value), "NaN"
    if not only_nan and nans < reading.value:
        what = "infinite" if nans == 0 else "NaN or infinite"
    noun = "gradients" if "gradients" in reading.collections else "elements"
    verb = "is" if count == 1 else "are"
    return f"{reading.tensor.removeprefix('gradient/')}: {count:,} of {reading.elements:,} {noun} {verb} {what}"


def _suggestion(reading: TensorReading) -> Advice:
    if "losses" in reading.collections:
        return _EVALUATION_ADVICE if _is_evaluated_loss(reading) else _LOSSES_ADVICE
    if "gradients" in reading.collections:
        return _GRADIENTS_ADVICE
    return _ADVICE
