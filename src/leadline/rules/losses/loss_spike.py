"""The rule loss_spike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.robust import NORMAL_MAD, finite, mad, median
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_FEWEST: Final = 20
"""Losses that must have come before."""


class LossSpike(Rule, frozen=True, kw_only=True):
    """Fires when a training loss jumps far out of its noise and does not come back.

    Why it matters:
        A spike that stays has thrown away what was learned: the steps after it are spent on learning it again, if
        it is learned again at all.
    How it decides:
        The last ``patience`` captured losses are all above ``median + k * 1.4826 * MAD`` and above
        ``median + abs(median) / 2`` (1.5 times a positive median), both of the up to ``window`` losses before them; at
        least 20 (or ``window``, if that is less) must be there. Each loss by itself.
    Not a number:
        A NaN or infinite loss counts neither as high nor towards the median (``nonfinite_origin`` is there for it).
    Blind spots:
        A rise over hundreds of steps moves the median along. A spike that is back within ``patience`` steps is let
        pass, by design. Losses that two networks push against each other (GAN) or that follow a policy (reinforcement
        learning) may rise while all is well.
    Args:
        k: How many robust standard deviations above the median are too much, > 0.
        window: Losses that median and MAD are taken of, >= 2.
        patience: Losses in a row that must be too high, >= 1.
    Source:
        Ours; median and MAD as Leys et al., "Detecting outliers", J. Exp. Soc. Psychol. 49, 2013.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_not_decreasing", "overtraining")

    k: Annotated[float, msgspec.Meta(gt=0)] = 8.0
    window: Annotated[int, msgspec.Meta(ge=2)] = 100
    patience: Annotated[int, msgspec.Meta(ge=1)] = 5

    def needs(self) -> Needs:
        history = self.window + self.patience - 1
        return Needs((TensorNeed("losses", statistics=("value",), modes=("train",), history=history),))

    def evaluate(self, window: Window) -> Verdict:
        judged = False
        for reading in window.readings("value"):
            values = [*(each.value for each in window.earlier(reading)), reading.value]
            latest = finite(values[-self.patience :])
            before = finite(values[: -self.patience])
            if len(before) < min(_FEWEST, self.window) or not latest:
                continue
            judged = True
            if len(latest) < self.patience or min(latest) <= reading_bound(before, self.k)[0]:
                continue
            return self._fired(reading, latest, before)
        return Clear() if judged else Undecided(f"fewer than {min(_FEWEST, self.window)} losses came before")

    def _fired(self, reading: TensorReading, latest: list[float], before: list[float]) -> Fired:
        bound, usual, spread = reading_bound(before, self.k)
        return Fired(
            f"{reading.tensor} jumped from {usual:.4g} to {max(latest):.4g} and stayed above {bound:.4g} for "
            f"{self.patience} step{'s' * (self.patience > 1)}",
            tensors=(reading.tensor,),
            evidence={
                "highest": max(latest),
                "lowest": min(latest),
                "median": usual,
                "robust_std": spread,
                "bound": bound,
            },
            suggestion="the last checkpoint before it with half the learning rate, or clip gradients; "
            "usually the rate is too high, or a batch is far out of the ordinary",
            worker=reading.worker,
        )


def reading_bound(before: list[float], k: float) -> tuple[float, float, float]:
    """Above which a loss is a spike; the median and the robust standard deviation that it is made of."""
    usual = median(before)
    spread = NORMAL_MAD * mad(before, usual)
    return max(usual + k * spread, usual + abs(usual) / 2), usual, spread
