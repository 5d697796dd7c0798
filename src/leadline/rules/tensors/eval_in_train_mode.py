"""The rule eval_in_train_mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_STEPS: Final = "/train_steps_in_eval_mode"
_CALLS: Final = "/eval_calls_in_train_mode"
_EVERY: Final = 10


class EvalInTrainMode(Rule, frozen=True, kw_only=True):
    """Fires when a model trains in evaluation mode, or is evaluated in training mode.

    Why it matters:
        Trained in evaluation mode, dropout drops nothing and batch normalization goes on with old averages: the model
        overfits, or its statistics fit nothing. Evaluated in training mode the figures are worse than the model, differ
        from call to call, and evaluation data leak into the averages.
    How it decides:
        The hooks count an optimizer's steps in a row at which every dropout and batch normalization module of its
        models was in evaluation mode, and a model's calls without gradients in a row in which one of them was in
        training mode; fires when one of the counts is at least ``patience``.
    Not a number:
        Looks at no numbers but the counts.
    Blind spots:
        Dropout called as a function (``F.dropout``) has no mode of its own and is not seen. Whether a module ran is not
        known, only that it belongs to the model. On purpose: fine-tuning with all batch normalization frozen, Monte
        Carlo dropout, averages of batch normalization renewed without gradients.
    Args:
        patience: Steps or calls in a row, >= 1.
    Source:
        Ours; ``torch.nn.Module.train``.
    """

    explains: ClassVar[tuple[str, ...]] = ("overfit", "metric_not_improving")

    patience: Annotated[int, msgspec.Meta(ge=1)] = 10

    def needs(self) -> Needs:
        return Needs(
            tuple(
                TensorNeed("checks", regex=f"{each}$", statistics=("value",), modes=("train", "eval"), every=_EVERY)
                for each in (_STEPS, _CALLS)
            )
        )

    def evaluate(self, window: Window) -> Verdict:
        counts = [each for each in window.readings("value") if each.value == each.value]
        if not counts:
            return Undecided("no model with dropout or batch normalization was seen")
        worst = max(counts, key=lambda each: each.value)
        return self._fired(worst) if worst.value >= self.patience else Clear()

    def _fired(self, worst: TensorReading) -> Fired:
        is_training = worst.tensor.endswith(_STEPS)
        model, count = worst.tensor.rpartition("/")[0], int(worst.value)
        return Fired(
            f"{model}: {count:,} training steps in a row with all dropout and batch normalization in evaluation mode"
            if is_training
            else f"{model}: {count:,} calls without gradients in a row with dropout or batch normalization in training "
            "mode",
            tensors=(worst.tensor,),
            evidence={"in_a_row": count, "patience": self.patience, "is_training": is_training},
            suggestion="model.train() at the start of each epoch, or where the loop comes back from validation; "
            "usually model.eval() was called for a validation and nothing set it back"
            if is_training
            else "model.eval() before validation and model.train() after it; "
            "usually torch.no_grad() was taken for the evaluation mode, which it is not",
            worker=worst.worker,
        )
