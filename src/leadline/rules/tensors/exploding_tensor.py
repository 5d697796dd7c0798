"""The rule exploding_tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from leadline.records.names import is_module_collection
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats, TensorReading, Window

_STATISTICS = ("nonfinite_count", "nan_count", "value")
_GRADIENTS = frozenset({"gradients", "gradient_norms"})


class ExplodingTensor(Rule, frozen=True, kw_only=True):
    """Fires when a selected tensor holds NaN or infinity.

    Why it matters:
        One NaN in a gradient is in every weight after the next step and in every loss from then on; what is
        trained afterwards is lost, and a checkpoint of it is useless.
    How it decides:
        A tensor fires when its count of NaN and infinite elements is above 0 (with ``only_nan``: of NaN alone);
        a single number when it is NaN or infinite itself. Counts are counted on the elements, never inferred
        from a sum or norm, which may overflow on healthy data. At a step that a gradient scaler skips the
        gradients and their norms are not judged: that they overflow now and then is how it finds its scale. Where
        nothing is selected, infinity in what modules take and give is let pass, and NaN is not: masks added to
        attention scores are infinite by right; and metrics are not judged: scripts log ``best=inf`` by right too.
    Not a number:
        Is what it looks for.
    Blind spots:
        It sees the steps that are captured: between two of them a NaN can come and go (an action raises the
        capture to every step). It does not say where the first NaN was made, only where it is seen.
    Args:
        collection_names: Collections whose tensors are judged, any of ``leadline.records.names.COLLECTIONS``;
            without these and ``tensor_regex``: everything that is captured.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are judged as well.
        only_nan: Judge NaN alone, and let infinity pass (true or false).
    Source:
        SageMaker developer guide, "ExplodingTensor"; the counts are ours.
    """

    explains: ClassVar[tuple[str, ...]] = (
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
            if window.is_thinned:
                return Undecided("part of what was to be captured at this step was lost")
            return Clear()
        nans = {(each.worker, each.tensor): each.value for each in self._arrays(window, "nan_count")}
        bad = [*numbers, *arrays]
        first = bad[0]
        more = len({each.tensor for each in bad}) - 1
        message = _describe(first, nans.get((first.worker, first.tensor), 0.0), self.only_nan)
        return Fired(
            message + (f", and {more:,} more tensor{'s' * (more > 1)}" if more else ""),
            tensors=tuple(dict.fromkeys(each.tensor for each in bad)),
            evidence=self._evidence(numbers, arrays, sum(nans.values())),
            suggestion=_suggestion(first),
            worker=first.worker,
        )

    def _arrays(self, window: Window, statistic: str) -> list[TensorReading]:
        found = self._judged(window, window.readings(statistic, where=_is_counted))
        if statistic == "nan_count" or self.collection_names or self.tensor_regex:
            return found
        nans = {(each.worker, each.tensor) for each in window.readings("nan_count", where=_is_counted)}
        return [each for each in found if not _may_be_mask(each) or (each.worker, each.tensor) in nans]

    def _judged(self, window: Window, readings: list[TensorReading]) -> list[TensorReading]:
        """Without the gradients of a step that a gradient scaler skipped, and metrics, unless they were chosen."""
        if not self.collection_names and not self.tensor_regex:
            readings = [each for each in readings if "metrics" not in each.collections]
        return [each for each in readings if not (window.is_skipped and _GRADIENTS & set(each.collections))]

    def _is_bad_number(self, values: Floats) -> Choices:
        is_nan: Choices = values != values
        return is_nan if self.only_nan else is_nan | (abs(values) == math.inf)

    def _evidence(
        self, numbers: Sequence[TensorReading], arrays: Sequence[TensorReading], nans: float
    ) -> dict[str, object]:
        evidence: dict[str, object] = {each.tensor: each.value for each in numbers[:5]}
        if arrays:
            elements = sum(each.elements for each in arrays)
            bad = int(sum(each.value for each in arrays))
            evidence |= {"nonfinite_count": bad, "nan_count": int(nans), "elements": elements}
        return evidence


def _may_be_mask(reading: TensorReading) -> bool:
    return any(is_module_collection(each) for each in reading.collections)


def _is_counted(counts: Floats) -> Choices:
    return counts > 0


def _describe(reading: TensorReading, nans: float, only_nan: bool) -> str:
    if reading.statistic == "value":
        return f"{reading.tensor} is {'NaN' if math.isnan(reading.value) else 'infinite'}"
    count, what = int(reading.value), "NaN"
    if not only_nan and nans < reading.value:
        what = "infinite" if nans == 0 else "NaN or infinite"
    noun = "gradients" if "gradients" in reading.collections else "elements"
    verb = "is" if count == 1 else "are"
    return f"{reading.tensor.removeprefix('gradient/')}: {count:,} of {reading.elements:,} {noun} {verb} {what}"


def _suggestion(reading: TensorReading) -> str:
    if "losses" in reading.collections:
        return (
            "a tenth of the learning rate, or clip gradients (clip_grad_norm_ to 1.0); "
            "usually the rate is too high, or the loss takes a log, square root or quotient of zero"
        )
    if "gradients" in reading.collections:
        return (
            "clip gradients (clip_grad_norm_ to 1.0), or bfloat16 or GradScaler in place of plain float16; "
            "usually half precision overflowed, or the loss had a spike"
        )
    return (
        "the last good checkpoint with a lower learning rate, and a look at the gradients before this step; "
        "usually an earlier step's non-finite gradient reached it"
    )
