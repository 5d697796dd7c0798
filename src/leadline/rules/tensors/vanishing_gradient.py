"""The rule vanishing_gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Fired, Undecided, Verdict
from leadline.rules.messages import clear_if_complete
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import Window


class VanishingGradient(Rule, frozen=True, kw_only=True):
    """Fires when the mean absolute gradient of a parameter is below a threshold.

    Why it matters:
        A parameter whose gradient is close to zero does not learn; in a deep network these are the first layers,
        while the loss still falls a little because of the last ones.
    How it decides:
        Fires if ``mean(abs(gradient)) < threshold``, for each parameter separately, of the gradient that the
        optimizer is about to use (accumulated, unscaled, clipped).
    Not a number:
        A step that a gradient scaler skipped is not evaluated, since clipping sets overflowed gradients to zero. A
        mean that is NaN or infinite is not evaluated (see ``exploding_tensor``); undecided if all are.
    Blind spots:
        Adam and similar optimizers divide by the size of the gradient: parameters with tiny gradients may learn
        well. Frozen and unused parameters have no gradient and are not evaluated. A gradient of exactly zero counts
        as vanished, even behind a ReLU that happens to be off.
    Args:
        threshold: Mean absolute value below which a gradient counts as vanished, > 0, in the gradient's unit.
    Source:
        SageMaker developer guide, "VanishingGradient".
    """

    threshold: Annotated[float, msgspec.Meta(gt=0)] = 1e-7

    def needs(self) -> Needs:
        return Needs.of("gradients", "abs_mean")

    def evaluate(self, window: Window) -> Verdict:
        if window.is_skipped:
            return Undecided("a gradient scaler skipped the step")
        if not window.readings("abs_mean", where=lambda values: abs(values) < float("inf")):
            return Undecided("no gradient at this step had a finite mean absolute value")
        small = window.readings("abs_mean", where=lambda values: values < self.threshold)
        if not small:
            return clear_if_complete(window, "gradients")
        small.sort(key=lambda reading: reading.value)
        worst = small[0]
        tensors = tuple(dict.fromkeys(reading.tensor for reading in small))
        more = len(tensors) - 1
        return Fired(
            f"{worst.tensor.removeprefix('gradient/')}: mean absolute gradient {worst.value:.3g} is below "
            f"{self.threshold:g}" + (f", and {more:,} more tensor{'s' * (more > 1)}" if more else ""),
            tensors=tensors,
            evidence={"abs_mean": worst.value, "threshold": self.threshold, "gradients": len(small)},
            suggestion="ReLU-like activations or a normalization layer before them, or a larger initial weight scale; "
            "usually activations are saturated, or a deep stack lacks normalization or residual connections",
            worker=worst.worker,
        )
