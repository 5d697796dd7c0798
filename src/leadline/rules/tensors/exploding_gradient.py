"""The rule exploding_gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.robust import NORMAL_MAD, finite, mad, median
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_NEXT: Final = 5
"""How many norms in a row are looked at together."""
_DEVIATIONS: Final = 4.0
"""Robust standard deviations of the logarithms; healthy trainings of the tests reach 2.1, twice in 5 norms."""
_NORM: Final = "gradient_norm"
_BEFORE: Final = "gradient_norm_before_clipping"


class ExplodingGradient(Rule, frozen=True, kw_only=True):
    """Fires when the total gradient norm jumps far above what it was, and does so again within a few steps.

    Why it matters:
        One step along an exploded gradient throws the weights far away from where they were; clipping hides it, and
        from then on every step is the clipped one.
    How it decides:
        Of the last 5 captured norms at least ``patience`` are above ``factor`` times the median of the up to
        ``window`` norms before these 5, and out of their noise: above ``median * exp(4 * 1.4826 * MAD)``, where MAD is
        that of their logarithms. At least ``warmup`` of those must be there. The norm is the entrywise l2 of all
        gradients of an optimizer, before clipping where the training clips, else as the optimizer gets them. Each
        optimizer by itself.
    Not a number:
        Norms that are NaN or infinite count neither as high nor towards the median (``nonfinite_origin`` is there for
        them). Steps that a gradient scaler skipped are not judged. Where the median is 0 there is nothing to compare
        with: undecided.
    Blind spots:
        It counts captured norms: where the training does not clip they are captured with the gradients, so the window
        is longer in steps. A norm that grows slowly is not a jump. The first ``warmup`` captures are not judged, which
        is when many explosions happen.
    Args:
        factor: How many times the median is too much, > 1.
        window: Norms that the median is taken of, >= 1.
        patience: How many of 5 norms in a row must be too high, 1 to 5.
        warmup: Norms that must have come before, >= 1.
    Source:
        Ours; Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", 2013.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_spike", "weight_update_ratio", "learning_rate", "gradient_clipping")

    factor: Annotated[float, msgspec.Meta(gt=1)] = 10.0
    window: Annotated[int, msgspec.Meta(ge=1)] = 100
    patience: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2
    warmup: Annotated[int, msgspec.Meta(ge=1)] = 20

    def needs(self) -> Needs:
        history = max(self.window, self.warmup) + _NEXT - 1
        return Needs((TensorNeed("gradient_norms", statistics=("value",), modes=("train",), history=history),))

    def evaluate(self, window: Window) -> Verdict:
        if window.is_skipped:
            return Undecided("a gradient scaler skipped the step")
        judged = False
        for reading in _norms(window.readings("value")):
            values = [*(each.value for each in window.earlier(reading)), reading.value]
            before = finite(values[:-_NEXT])[-max(self.window, self.warmup) :]
            if len(before) < self.warmup:
                continue
            usual = median(before[-self.window :])
            if usual <= 0:
                continue
            judged = True
            bound = usual * max(self.factor, _noise(before[-self.window :]))
            high = [each for each in finite(values[-_NEXT:]) if each > bound]
            if len(high) >= self.patience:
                return self._fired(reading, usual, high)
        return Clear() if judged else Undecided(f"fewer than {self.warmup} gradient norms came before")

    def _fired(self, reading: TensorReading, usual: float, high: list[float]) -> Fired:
        return Fired(
            f"{reading.tensor} is {max(high):.4g}, {max(high) / usual:.3g} times its median of {usual:.4g}, "
            f"in {len(high)} of the last {_NEXT}",
            tensors=(reading.tensor,),
            evidence={
                "norm": max(high),
                "median": usual,
                "times": max(high) / usual,
                "factor": self.factor,
                "high": len(high),
            },
            suggestion="clip gradients (clip_grad_norm_ to a few times the median), or a tenth of the learning rate; "
            "usually the rate is too high for where the weights are, or a batch is far out of the ordinary",
            worker=reading.worker,
        )


def _noise(norms: list[float]) -> float:
    """How many times the median norms reach by chance: late in a training, when only a few samples are still wrong,
    they are spread over orders of magnitude."""
    logarithms = [math.log(each) for each in norms if each > 0]
    return math.exp(min(_DEVIATIONS * NORMAL_MAD * mad(logarithms, median(logarithms)), 700.0))


def _norms(readings: list[TensorReading]) -> list[TensorReading]:
    """Of each optimizer the norm before clipping, else the norm."""
    clipped = {(each.worker, each.tensor) for each in readings if each.tensor.endswith(_BEFORE)}
    return [
        each
        for each in readings
        if each.tensor.endswith(_BEFORE)
        or (each.tensor.endswith(_NORM) and (each.worker, f"{each.tensor}_before_clipping") not in clipped)
    ]
