"""The rule output_collapse."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final

from leadline.records.formatting import significant
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    Rule,
    Severity,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import PositiveFloat, PositiveInt
from leadline.rules.messages import fired, suspected

_EVERY: Final = 50
_ADVICE: Final = Advice(
    "a lower learning rate, and dead_relu on the layers before; usually the activations died after too large a step, "
    "or the input does not reach the output"
)


class OutputCollapse(Rule, frozen=True, kw_only=True):
    """Fires when a model gives the same output for every input.

    Why it matters:
        A model that ignores its input has learned a constant (the mean, the most frequent class); the loss looks
        stable, and nothing more is learned.
    How it decides:
        Fires if ``std over the batch < eps * (1 + mean absolute value)`` for every floating-point output of the
        model, at ``patience`` captures in a row. The standard deviation is taken over the samples (dimension
        0), and averaged over all features. Undecided while fewer captures in a row agree, and before there are
        ``patience`` captures.
    Not a number:
        An output with NaN or infinity is not evaluated; without any other output the count of steps is reset, and
        the verdict is undecided.
    Blind spots:
        Batches of one sample are not evaluated. Outputs whose dimension 0 is not the samples (a scalar loss
        returned by the model, time first) are evaluated along that dimension. A collapse to a few different outputs
        is not detected.
    Args:
        eps: Relative standard deviation below which outputs count as equal, > 0.
        patience: Captures in a row, >= 1.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = ("loss_not_decreasing", "metric_not_improving")

    eps: PositiveFloat = 1e-5
    patience: PositiveInt = 10

    def needs(self) -> Needs:
        wanted = ("batch_std", "abs_mean")
        return Needs((TensorNeed("outputs", statistics=wanted, modes=("train",), every=_EVERY),))

    @property
    def least_observations(self) -> int:
        return self.patience

    def remember(self, memory: Any, window: Window) -> dict[str, int]:
        """Count the captured steps in a row at which all outputs of a worker were the same for all samples."""
        streaks: dict[str, int] = memory or {}
        for worker, outputs in _outputs(window).items():
            alike = [std < self.eps * (1 + size) for _, std, size in outputs]
            streaks[worker] = streaks.get(worker, 0) + 1 if alike and all(alike) else 0
        return streaks

    def evaluate(self, window: Window) -> Verdict:
        judged = {worker: outputs for worker, outputs in _outputs(window).items() if outputs}
        for worker, outputs in judged.items():
            if window.memory[worker] >= self.patience:
                return self._fired(outputs, window.memory[worker])
        if not judged:
            return Undecided("no finite output of more than one sample was captured")
        streak = max(window.memory[worker] for worker in judged)
        return suspected(streak, self.patience) if streak else Clear()

    def _fired(self, outputs: list[tuple[TensorReading, float, float]], streak: int) -> Fired:
        reading, std, size = outputs[0]
        return fired(
            f"{reading.tensor}: the same for every sample (standard deviation over the batch "
            f"{significant(std)}, mean absolute "
            f"value {significant(size)}), {self.patience} captures in a row",
            *(reading.tensor for reading, _, _ in outputs),
            advice=_ADVICE,
            evidence={"batch_std": std, "abs_mean": size, "eps": self.eps, "captures_in_a_row": streak},
            worker=reading.worker,
        )


def _outputs(window: Window) -> dict[str, list[tuple[TensorReading, float, float]]]:
    """Return the outputs of each worker that can be evaluated: reading, batch deviation, mean absolute value."""
    sizes = {(reading.worker, reading.tensor): reading.value for reading in window.readings("abs_mean")}
    by_worker: dict[str, list[tuple[TensorReading, float, float]]] = {}
    for reading in window.readings("batch_std"):
        outputs = by_worker.setdefault(reading.worker, [])
        size = sizes.get((reading.worker, reading.tensor), math.nan)
        is_batch = len(reading.shape) > 0 and reading.shape[0] > 1
        is_floating = "float" in reading.dtype
        if is_batch and is_floating and math.isfinite(reading.value) and math.isfinite(size):
            outputs.append((reading, reading.value, size))
    return by_worker
