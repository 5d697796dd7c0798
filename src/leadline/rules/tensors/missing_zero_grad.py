"""The rule missing_zero_grad."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.rules import Advice, Clear, Needs, Rule, TensorNeed, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import fired, suspected

_COUNT: Final = "/steps_without_zero_grad"
_EVERY: Final = 10
_ADVICE: Final = Advice("{reset_gradients}; usually the call is missing, or in code that the loop does not reach")


class MissingZeroGrad(Rule, frozen=True, kw_only=True):
    """Fires when several steps in a row begin with the gradients of the previous step.

    Why it matters:
        Gradients that are never set to zero add up: every step follows the sum of all batches so far, the norm
        grows with the steps, and the training oscillates or explodes for no reason in the model or data.
    How it decides:
        Counts, in a row, the steps of an optimizer before whose first backward pass the gradients were as the
        previous step had left them, neither removed nor overwritten. Fires if that count is at least ``patience``;
        undecided while it is between 1 and that.
    Not a number:
        Only this count is evaluated.
    Blind spots:
        One parameter of each optimizer represents all. If several optimizers take turns and gradients are set to
        zero in place on an accelerator (``set_to_none=False``), this cannot be detected without a device sync, and
        is not counted. Some optimizers are meant to get sums of gradients.
    Args:
        patience: Steps in a row, >= 1.
    Source:
        Ours; ``torch.optim.Optimizer.zero_grad``.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "exploding_gradient",
        "loss_spike",
        "diverging_loss",
        "loss_not_decreasing",
        "gradient_clipping",
        "weight_update_ratio",
    )

    patience: PositiveInt = 5

    def needs(self) -> Needs:
        return Needs((TensorNeed("checks", regex=f"{_COUNT}$", statistics=("value",), modes=("train",), every=_EVERY),))

    def evaluate(self, window: Window) -> Verdict:
        counts = [reading for reading in window.readings("value") if reading.value == reading.value]
        if not counts:
            return Undecided("no gradients were checked between the steps of an optimizer")
        worst = max(counts, key=lambda reading: reading.value)
        if worst.value < self.patience:
            return suspected(int(worst.value), self.patience, "steps in a row") if worst.value else Clear()
        optimizer = worst.tensor.removesuffix(_COUNT)
        return fired(
            f"{optimizer}: {int(worst.value):,} steps in a row began with the gradients of the previous step",
            worst,
            advice=_ADVICE,
            evidence={"steps_in_a_row": int(worst.value), "patience": self.patience},
        )
