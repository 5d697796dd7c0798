"""The rule vanishing_gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.records.formatting import exact, significant
from leadline.rules import Advice, Fired, Needs, TensorReading, TensorRule, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveFloat
from leadline.rules.messages import fired

_MIN_ELEMENTS: Final = 20
_SHARE: Final = 1e-3
"""A gradient that is not below this share of the largest one is as small as all others: the training has converged."""
_ADVICE: Final = Advice(
    "ReLU-like activations or a normalization layer before them, or a larger initial weight scale; usually activations "
    "are saturated, or a deep stack lacks normalization or residual connections"
)


class VanishingGradient(TensorRule[TensorReading], frozen=True, kw_only=True):
    """Fires when the mean absolute gradient of a parameter is below a threshold.

    Why it matters:
        A parameter whose gradient is close to zero does not learn; in a deep network these are the first layers,
        while the loss still falls a little because of the last ones.
    How it decides:
        Fires if ``mean(abs(gradient)) < threshold``, for each parameter separately, of the gradient that the
        optimizer is about to use (accumulated, unscaled, clipped), and if it is below a thousandth of the largest one
        where there are several. Biases and other vectors, and parameters of fewer than 20 elements, are not evaluated:
        that of a bias in front of a normalization is a rounding error of 0.
    Not a number:
        A step that a gradient scaler skipped is not evaluated, since clipping sets overflowed gradients to zero. A
        mean that is NaN or infinite is not evaluated (see ``exploding_tensor``); undecided if all are.
    Blind spots:
        Adam and similar optimizers divide by the size of the gradient: parameters with tiny gradients may learn
        well. Frozen and unused parameters have no gradient and are not evaluated. A gradient of exactly 0 has not
        faded, it was never there: it is reported by ``no_gradient`` and ``all_zero``.
    Args:
        threshold: Mean absolute value below which a gradient counts as vanished, > 0, in the gradient's unit.
    Source:
        SageMaker developer guide, "VanishingGradient".
    """

    data: ClassVar[str] = "gradients"
    untested: ClassVar[str] = "no gradient at this step had a finite mean absolute value"

    threshold: PositiveFloat = 1e-7

    def needs(self) -> Needs:
        return Needs.of("gradients", "abs_mean")

    def evaluate(self, window: Window) -> Verdict:
        return Undecided("a gradient scaler skipped the step") if window.is_skipped else super().evaluate(window)

    def finding(self, bad: Sequence[TensorReading]) -> Fired:
        worst = bad[0]
        return fired(
            f"{worst.tensor.removeprefix('gradient/')}: mean absolute gradient {significant(worst.value)} is below "
            f"{exact(self.threshold)}",
            *bad,
            advice=_ADVICE,
            evidence={"abs_mean": worst.value, "threshold": self.threshold, "gradients": len(bad)},
            noun="tensor",
        )

    def find(self, window: Window) -> list[TensorReading] | None:
        """Return the gradients that have vanished, the smallest first."""
        if not window.readings("abs_mean", where=lambda values: abs(values) < math.inf):
            return None
        small = [
            reading
            for reading in window.readings("abs_mean", where=lambda values: (values > 0) & (values < self.threshold))
            if _is_evaluated(reading)
        ]
        if not small:
            return []
        largest: dict[str, float] = {}
        counts: dict[str, int] = {}
        for reading in window.readings("abs_mean", where=lambda values: abs(values) < math.inf):
            if _is_evaluated(reading):
                largest[reading.worker] = max(reading.value, largest.get(reading.worker, 0.0))
                counts[reading.worker] = counts.get(reading.worker, 0) + 1
        return sorted(
            (
                reading
                for reading in small
                if counts[reading.worker] == 1 or reading.value < _SHARE * largest[reading.worker]
            ),
            key=lambda reading: reading.value,
        )


def _is_evaluated(reading: TensorReading) -> bool:
    return len(reading.shape) != 1 and (not reading.shape or reading.elements >= _MIN_ELEMENTS)
