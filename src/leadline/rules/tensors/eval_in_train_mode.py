"""The rule eval_in_train_mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.messages import suspected
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_STEPS: Final = "/train_steps_in_eval_mode"
_CALLS: Final = "/eval_calls_in_train_mode"
_EVERY: Final = 10


class EvalInTrainMode(Rule, frozen=True, kw_only=True):
    """Fires when a model trains in evaluation mode, or is evaluated in training mode.

    Why it matters:
        In a training in evaluation mode, dropout drops nothing and batch normalization uses old averages: the model
        overfits, or its statistics are wrong. In an evaluation in training mode the metrics are worse than the
        model, differ from call to call, and evaluation data leak into the averages.
    How it decides:
        Counts the optimizer steps in a row at which the models and each of their dropout and batch normalization
        modules were in evaluation mode, and the calls of a model without gradients, between two updates, in which the
        model and one of these modules were in training mode. Fires if one of the counts is at least ``patience``;
        undecided while one is between 1 and that.
    Not a number:
        Only these counts are evaluated.
    Blind spots:
        Dropout called as a function (``F.dropout``) has no mode of its own and is not visible. It is not known
        whether a module ran, only that it belongs to the model. A validation in fewer than ``patience`` batches is
        taken for a look at the outputs. Not counted are choices that leave the model itself in the other mode (frozen
        batch normalization, Monte Carlo dropout), and a model whose only such modules belong to a frozen part. Some
        intended uses fire as well: updates of batch normalization averages without gradients, a fine-tuning of all
        parameters without dropout by ``model.eval()``.
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
                TensorNeed("checks", regex=f"{check}$", statistics=("value",), modes=("train", "eval"), every=_EVERY)
                for check in (_STEPS, _CALLS)
            )
        )

    def evaluate(self, window: Window) -> Verdict:
        readings = [reading for reading in window.readings("value") if reading.value == reading.value]
        if not readings:
            return Undecided("no model was seen")
        counts = [reading for reading in readings if reading.value >= 0]
        if not counts:
            return NotApplicable("no trained model has dropout or batch normalization")
        worst = max(counts, key=lambda reading: reading.value)
        if worst.value >= self.patience:
            return self._fired(worst)
        return suspected(int(worst.value), self.patience, "steps or calls in a row") if worst.value else Clear()

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
            suggestion="model.train() at the start of each epoch, or after validation; "
            "usually model.eval() was called for validation and never reverted"
            if is_training
            else "model.eval() before validation and model.train() after it; "
            "usually torch.no_grad() was mistaken for evaluation mode",
            worker=worst.worker,
        )
