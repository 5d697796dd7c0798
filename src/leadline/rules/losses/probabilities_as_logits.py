"""The rule probabilities_as_logits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.messages import suspected
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
class _LogitsCapture:
    """One capture of the input of a loss call that takes logits."""

    low: float
    high: float
    row_sum: float
    """Mean over the rows of the sum over the classes; NaN without classes."""


class ProbabilitiesAsLogits(Rule, frozen=True, kw_only=True):
    """Fires when a loss that expects logits is given probabilities.

    Why it matters:
        Cross entropy applies softmax itself. After a second softmax even a perfect answer has a loss far above zero
        (0.31 for 2 classes, 1.46 for 10), gradients are flattened, and the training is slow without any error
        message.
    How it decides:
        Evaluates the inputs of a loss call at ``patience`` captures in a row. For cross entropy it fires if no
        element is below 0 and the sums of the rows over the classes have a mean of 1 within 1e-3. For binary cross
        entropy with logits it fires if all elements are in [0, 1] and the captures together reach within 0.05 of
        both ends. Undecided while fewer captures in a row look so. A training none of whose losses takes logits has
        nothing to evaluate.
    Not a number:
        A capture with NaN or infinity does not count, and resets the count.
    Blind spots:
        Only the mean of the row sums is checked, not each row. Sigmoid outputs in the middle of [0, 1] cannot be
        distinguished from small logits, so they are found only once the model is confident. The logarithm of a
        softmax as the input of cross entropy is harmless and not a finding. In compiled models the loss call is not
        visible; a loss that is computed without a call of PyTorch's is not seen anywhere.
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
                # of a network whose forward pass is captured without any loss call
                TensorNeed("outputs", statistics=("mean",), modes=("train",), end=self.patience, is_optional=True),
                TensorNeed("predictions", statistics=_STATISTICS, modes=("train",), end=self.patience),
                TensorNeed("predictions", statistics=_STATISTICS, modes=("train",), every=_EVERY),
            )
        )

    @property
    def least_observations(self) -> int:
        return self.patience

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], list[_LogitsCapture]]:
        """Keep the latest captures in a row that look like probabilities, at most ``patience`` of each call."""
        kept: dict[tuple[str, str], list[_LogitsCapture]] = memory or {}
        for reading, capture in _captures(window):
            key = (reading.worker, reading.tensor)
            is_like = _is_like_softmax(capture) if _kind(reading) in _SOFTMAX else _is_like_sigmoid(capture)
            kept[key] = [*kept.get(key, ()), capture][-self.patience :] if is_like else []
        return kept

    def evaluate(self, window: Window) -> Verdict:
        streak: int | None = None
        for reading, _ in _captures(window):
            captures = window.memory[reading.worker, reading.tensor]
            if len(captures) == self.patience and (_kind(reading) in _SOFTMAX or _reaches_both_ends(captures)):
                return self._fired(reading, captures)
            streak = max(streak or 0, len(captures) % self.patience)
        if streak is None:
            return _without_logits(window)
        return suspected(streak, self.patience) if streak else Clear()

    def _fired(self, reading: TensorReading, captures: list[_LogitsCapture]) -> Fired:
        low, high = min(capture.low for capture in captures), max(capture.high for capture in captures)
        is_softmax = _kind(reading) in _SOFTMAX
        detail = (
            f"rows that sum to {captures[-1].row_sum:.4g}" if is_softmax else f"all of them in [{low:.3g}, {high:.3g}]"
        )
        return Fired(
            f"{reading.tensor} is given as logits but looks like probabilities: no element below 0, {detail}, "
            f"{self.patience} capture{'s' * (self.patience > 1)} in a row",
            tensors=(reading.tensor,),
            evidence={"min": low, "max": high, "row_sum": captures[-1].row_sum if is_softmax else None},
            suggestion="removing the softmax from the model, or NLLLoss on its log_softmax; "
            "usually the model ends with a softmax that the loss applies again"
            if is_softmax
            else "removing the sigmoid from the model, or BCELoss in place of BCEWithLogitsLoss; "
            "usually the model ends with a sigmoid that the loss applies again",
            worker=reading.worker,
        )


def _without_logits(window: Window) -> NotApplicable | Undecided:
    """Return the verdict on a step without the complete input of a loss that takes logits."""
    captured = [reading for statistic in _STATISTICS for reading in window.readings(statistic)]
    readings = [reading for reading in captured if "predictions" in reading.collections]
    if any(_kind(reading) in _SOFTMAX | _SIGMOID for reading in readings):
        return Undecided("the inputs of the loss were captured in part")
    if any(map(is_from_booster, readings)):
        return NotApplicable("boosted trees have no loss that takes logits")
    return NotApplicable("no loss of the training takes logits")


def _captures(window: Window) -> list[tuple[TensorReading, _LogitsCapture]]:
    """Return the inputs of the loss calls of this step that take logits."""
    by_tensor: dict[tuple[str, str], dict[str, TensorReading]] = {}
    for statistic in _STATISTICS:
        for reading in window.readings(statistic):
            if _kind(reading) in _SOFTMAX | _SIGMOID:
                by_tensor.setdefault((reading.worker, reading.tensor), {})[statistic] = reading
    complete = [statistics for statistics in by_tensor.values() if len(statistics) == len(_STATISTICS)]
    return [
        (
            statistics["min"],
            _LogitsCapture(statistics["min"].value, statistics["max"].value, _row_sum(statistics["mean"])),
        )
        for statistics in complete
    ]


def _row_sum(mean: TensorReading) -> float:
    shape = mean.shape
    return mean.value * (shape[1] if len(shape) > 1 else shape[0]) if shape else float("nan")


def _is_like_softmax(capture: _LogitsCapture) -> bool:
    return capture.low >= 0 and abs(capture.row_sum - 1.0) <= _TOLERANCE


def _is_like_sigmoid(capture: _LogitsCapture) -> bool:
    return capture.low >= 0 and capture.high <= 1


def _reaches_both_ends(captures: list[_LogitsCapture]) -> bool:
    low, high = min(capture.low for capture in captures), max(capture.high for capture in captures)
    return low <= _NEAR_THE_ENDS and high >= 1 - _NEAR_THE_ENDS


def _kind(reading: TensorReading) -> str:
    call = reading.tensor.rpartition("_")[0].removesuffix("_input")
    return re.sub(r"[_\d]", "", call.rpartition(".")[2]).lower()
