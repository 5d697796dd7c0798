"""The rule output_collapse."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_EVERY: Final = 50


class OutputCollapse(Rule, frozen=True, kw_only=True):
    """Fires when a model gives the same answer whatever it is given.

    Why it matters:
        A model that ignores its input has learned a constant (the mean, the most frequent class); the loss looks
        stable, and nothing more is learned.
    How it decides:
        ``std over the batch < eps * (1 + mean absolute value)`` for every floating output of the model, at
        ``patience`` captured steps in a row. The standard deviation is taken over the samples (dimension 0), and its
        mean over all features.
    Not a number:
        An output with NaN or infinity is not judged; where none can be, the count of steps begins anew, and the verdict
        is undecided.
    Blind spots:
        Batches of one sample say nothing, and are not judged. Outputs that do not have the samples in dimension 0 (a
        scalar loss returned by the model, time first) are judged by what they have there. A collapse onto a few answers
        rather than one is not seen.
    Args:
        eps: Relative standard deviation below which outputs are alike, > 0.
        patience: Captured steps in a row, >= 1.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_not_decreasing", "metric_not_improving")

    eps: Annotated[float, msgspec.Meta(gt=0)] = 1e-5
    patience: Annotated[int, msgspec.Meta(ge=1)] = 10

    def needs(self) -> Needs:
        wanted = ("batch_std", "abs_mean")
        return Needs((TensorNeed("outputs", statistics=wanted, modes=("train",), every=_EVERY),))

    def remember(self, memory: Any, window: Window) -> dict[str, int]:
        """Of each worker, the captured steps in a row at which all its outputs were alike."""
        runs: dict[str, int] = memory or {}
        for worker, outputs in _outputs(window).items():
            alike = [std < self.eps * (1 + size) for _, std, size in outputs]
            runs[worker] = runs.get(worker, 0) + 1 if alike and all(alike) else 0
        return runs

    def evaluate(self, window: Window) -> Verdict:
        judged = {worker: outputs for worker, outputs in _outputs(window).items() if outputs}
        for worker, outputs in judged.items():
            if window.memory[worker] >= self.patience:
                return self._fired(outputs, window.memory[worker])
        return Clear() if judged else Undecided("no finite output of more than one sample was captured")

    def _fired(self, outputs: list[tuple[TensorReading, float, float]], run: int) -> Fired:
        reading, std, size = outputs[0]
        return Fired(
            f"{reading.tensor}: the same for every sample (standard deviation over the batch {std:.3g}, mean absolute "
            f"value {size:.3g}), {self.patience} captured steps running",
            tensors=tuple(dict.fromkeys(each.tensor for each, _, _ in outputs)),
            evidence={"batch_std": std, "abs_mean": size, "eps": self.eps, "captures_in_a_row": run},
            suggestion="a lower learning rate, and dead_relu on the layers before; "
            "usually the activations died after too large a step, or the input does not reach the output",
            worker=reading.worker,
        )


def _outputs(window: Window) -> dict[str, list[tuple[TensorReading, float, float]]]:
    """By worker its outputs that can be judged: reading, standard deviation over the batch, mean absolute value."""
    sizes = {(each.worker, each.tensor): each.value for each in window.readings("abs_mean")}
    found: dict[str, list[tuple[TensorReading, float, float]]] = {}
    for each in window.readings("batch_std"):
        judged = found.setdefault(each.worker, [])
        size = sizes.get((each.worker, each.tensor), math.nan)
        is_batch = len(each.shape) > 0 and each.shape[0] > 1
        is_floating = "float" in each.dtype
        if is_batch and is_floating and math.isfinite(each.value) and math.isfinite(size):
            judged.append((each, each.value, size))
    return found
