"""The rule probabilities_as_logits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_STATISTICS: Final = ("min", "max", "mean")
_TOLERANCE: Final = 1e-3
_NEAR_THE_ENDS: Final = 0.05
_EVERY: Final = 500
_SOFTMAX: Final = frozenset({"crossentropyloss", "crossentropy"})
_SIGMOID: Final = frozenset({"bcewithlogitsloss", "binarycrossentropywithlogits"})


@dataclass(frozen=True, slots=True)
class _Seen:
    """One capture of what a loss call was given as logits."""

    low: float
    high: float
    row_sum: float
    """Mean over the rows of the sum over the classes; NaN where there are no classes."""


class ProbabilitiesAsLogits(Rule, frozen=True, kw_only=True):
    """Fires when probabilities are given to a loss that takes logits.

    Why it matters:
        Cross entropy applies softmax itself. After a second one even a perfect answer has a loss far above zero
        (0.31 for 2 classes, 1.46 for 10), gradients are flattened, and the training crawls
        without any error.
    How it decides:
        ``patience`` captures in a row of what a loss call was given: for cross entropy no element is below 0 and the
        rows' sums over the classes average 1 within 1e-3; for binary cross entropy with logits all elements lie in
        [0, 1] and the captures together reach within 0.05 of both ends.
    Not a number:
        A capture with NaN or infinity is no sign of it, and begins the count anew.
    Blind spots:
        The sums are looked at as their mean, not row by row. Sigmoid outputs that stay in the middle of [0, 1] cannot
        be told from small logits, and are not until the model is sure of something. The logarithm of a softmax given to
        cross entropy is harmless, and no finding. Of compiled models the loss call is not seen.
    Args:
        patience: Captures in a row, >= 1.
    Source:
        Ours; ``torch.nn.CrossEntropyLoss`` ("the input is expected to contain the unnormalized logits").
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_not_decreasing", "metric_not_improving", "vanishing_gradient")

    patience: Annotated[int, msgspec.Meta(ge=1)] = 3

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("predictions", statistics=_STATISTICS, modes=("train",), end=self.patience),
                TensorNeed("predictions", statistics=_STATISTICS, modes=("train",), every=_EVERY),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], list[_Seen]]:
        """The latest captures in a row that look like probabilities, at most ``patience`` of each call."""
        kept: dict[tuple[str, str], list[_Seen]] = memory or {}
        for reading, seen in _look(window):
            key = (reading.worker, reading.tensor)
            is_like = _is_like_softmax(seen) if _kind(reading) in _SOFTMAX else _is_like_sigmoid(seen)
            kept[key] = [*kept.get(key, ()), seen][-self.patience :] if is_like else []
        return kept

    def evaluate(self, window: Window) -> Verdict:
        judged = False
        for reading, _ in _look(window):
            judged = True
            seen = window.memory[reading.worker, reading.tensor]
            if len(seen) == self.patience and (_kind(reading) in _SOFTMAX or _reaches_both_ends(seen)):
                return self._fired(reading, seen)
        return Clear() if judged else Undecided("no call of a loss that takes logits was captured")

    def _fired(self, reading: TensorReading, seen: list[_Seen]) -> Fired:
        low, high = min(each.low for each in seen), max(each.high for each in seen)
        is_softmax = _kind(reading) in _SOFTMAX
        what = f"rows that sum to {seen[-1].row_sum:.4g}" if is_softmax else f"all of them in [{low:.3g}, {high:.3g}]"
        return Fired(
            f"{reading.tensor} is given as logits but looks like probabilities: no element below 0, {what}, "
            f"{self.patience} time{'s' * (self.patience > 1)} running",
            tensors=(reading.tensor,),
            evidence={"min": low, "max": high, "row_sum": seen[-1].row_sum if is_softmax else None},
            suggestion="take the softmax out of the model, or NLLLoss on its log_softmax; "
            "usually the model ends with a softmax that the loss applies again"
            if is_softmax
            else "take the sigmoid out of the model, or BCELoss in place of BCEWithLogitsLoss; "
            "usually the model ends with a sigmoid that the loss applies again",
            worker=reading.worker,
        )


def _look(window: Window) -> list[tuple[TensorReading, _Seen]]:
    """What the loss calls of this step that take logits were given."""
    found: dict[tuple[str, str], dict[str, TensorReading]] = {}
    for statistic in _STATISTICS:
        for each in window.readings(statistic):
            if _kind(each) in _SOFTMAX | _SIGMOID:
                found.setdefault((each.worker, each.tensor), {})[statistic] = each
    whole = [each for each in found.values() if len(each) == len(_STATISTICS)]
    return [(each["min"], _Seen(each["min"].value, each["max"].value, _row_sum(each["mean"]))) for each in whole]


def _row_sum(mean: TensorReading) -> float:
    shape = mean.shape
    return mean.value * (shape[1] if len(shape) > 1 else shape[0]) if shape else float("nan")


def _is_like_softmax(seen: _Seen) -> bool:
    return seen.low >= 0 and abs(seen.row_sum - 1.0) <= _TOLERANCE


def _is_like_sigmoid(seen: _Seen) -> bool:
    return seen.low >= 0 and seen.high <= 1


def _reaches_both_ends(seen: list[_Seen]) -> bool:
    low, high = min(each.low for each in seen), max(each.high for each in seen)
    return low <= _NEAR_THE_ENDS and high >= 1 - _NEAR_THE_ENDS


def _kind(reading: TensorReading) -> str:
    call = reading.tensor.rpartition("_")[0].removesuffix("_input")
    return re.sub(r"[_\d]", "", call.rpartition(".")[2]).lower()
