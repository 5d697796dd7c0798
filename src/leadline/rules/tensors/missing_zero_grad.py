"""The rule missing_zero_grad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import Window

_COUNT: Final = "/steps_without_zero_grad"
_EVERY: Final = 10


class MissingZeroGrad(Rule, frozen=True, kw_only=True):
    """Fires when step after step begins with the gradients that the step before left.

    Why it matters:
        Gradients that are never set to zero add up: every step goes along the sum of all batches so far, the norm grows
        with the steps, and the training oscillates or explodes for no reason that the model or data would give.
    How it decides:
        The hooks count an optimizer's steps in a row before whose first backward pass the gradients were as the step
        before had left them, neither removed nor written to; fires when that count is at least ``patience``.
    Not a number:
        Looks at no numbers but the count.
    Blind spots:
        One parameter of each optimizer stands for all. Where several optimizers take turns and gradients are set to
        zero in place on an accelerator (``set_to_none=False``), it cannot be told from afar, and is not counted.
        Somebody may mean it: an optimizer that is fed sums of gradients.
    Args:
        patience: Steps in a row, >= 1.
    Source:
        Ours; ``torch.optim.Optimizer.zero_grad``.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_gradient",
        "loss_spike",
        "loss_not_decreasing",
        "gradient_clipping",
        "weight_update_ratio",
    )

    patience: Annotated[int, msgspec.Meta(ge=1)] = 5

    def needs(self) -> Needs:
        return Needs((TensorNeed("checks", regex=f"{_COUNT}$", statistics=("value",), modes=("train",), every=_EVERY),))

    def evaluate(self, window: Window) -> Verdict:
        counts = [each for each in window.readings("value") if each.value == each.value]
        if not counts:
            return Undecided("no optimizer's gradients were looked at between its steps")
        worst = max(counts, key=lambda each: each.value)
        if worst.value < self.patience:
            return Clear()
        optimizer = worst.tensor.removesuffix(_COUNT)
        return Fired(
            f"{optimizer}: {int(worst.value):,} steps in a row began with the gradients that the step before left",
            tensors=(worst.tensor,),
            evidence={"steps_in_a_row": int(worst.value), "patience": self.patience},
            suggestion="optimizer.zero_grad() before each backward pass, or model.zero_grad() where several optimizers "
            "share the model; usually the call is missing, or stands where the loop does not come by",
            worker=worst.worker,
        )
