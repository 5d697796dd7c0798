"""The rule eval_in_train_mode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from leadline.records.formatting import counted
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import fired, suspected

_STEPS: Final = "/train_steps_in_eval_mode"
_CALLS: Final = "/eval_calls_in_train_mode"
_OTHERS: Final = "/other_calls_with_dropout"
_FROZEN: Final = "/frozen_batch_norms"
_EVERY: Final = 10
_FEW_CALLS: Final = 3
"""Fewer losses without gradients between two updates are a look at the training."""
_TRAINS_IN_EVAL_MODE: Final = Advice("{steps_in_train_mode}")
_EVALUATED_IN_TRAIN_MODE: Final = Advice(
    "{eval_mode} before validation and {train_mode} after it; usually {without_gradients} was mistaken for evaluation "
    "mode"
)


@dataclass(slots=True)
class _Evaluations:
    """The evaluations of a model in training mode, as far as their losses were counted, and its other calls."""

    calls: int = 0
    """The losses in all of them."""
    count: int = 0
    has_pause: bool = False
    """Whether there were updates without such losses in between: otherwise they are a part of each step."""
    others: int = 0
    """The most calls with dropout between two updates of which no loss was computed."""
    frozen: int = 0
    """The frozen batch normalizations in training mode at the last capture."""

    def add(self, calls: float) -> None:
        if _FEW_CALLS <= calls < math.inf:
            self.calls += int(calls)
            self.count += 1
        elif calls == 0 and self.count:
            self.has_pause = True


class EvalInTrainMode(Rule, frozen=True, kw_only=True):
    """Fires when a model trains in evaluation mode, or is evaluated in training mode.

    Why it matters:
        In a training in evaluation mode, dropout drops nothing and batch normalization uses old averages: the model
        overfits, or its statistics are wrong. In an evaluation in training mode the metrics are worse than the
        model, differ from call to call, and evaluation data leak into the averages.
    How it decides:
        Counts the optimizer steps in a row at which the models and each of their dropout and batch normalization
        modules were in evaluation mode (with Keras, Flax and Equinox: in which a trained model was called that has
        them, all of them in evaluation mode, and without an argument that says so), and the losses that were computed
        without gradients, between two updates, of the outputs of a model of which one of these modules was in training
        mode: that is what makes calls an evaluation. Samples, rollouts, targets, pseudo-labels and passes for
        statistics have no loss, and several calls with a single loss are a mean over dropout. Fires if one of the
        counts is at least ``patience``; undecided while one is between 1 and that. Fires too if the losses of several
        evaluations, of at least 3 each and with updates without such losses in between, add up to ``patience``. Of
        ``patience`` calls without a loss, between two updates and with dropout in training mode, it remarks at the end
        of the run; and so it does of batch normalizations that were in training mode at the last capture though their
        weights were frozen at every one.
    Not a number:
        Only these counts are evaluated.
    Blind spots:
        Dropout called as a function (``F.dropout``) has no mode of its own and is not visible. With PyTorch it is not
        known whether a module ran, only that it belongs to the model. With Keras, JAX and TensorFlow only the mode of
        train steps is known, and a call that is given ``training=False`` is taken for a choice. A validation in one or
        two batches is taken for a look at the outputs, and one that computes only an accuracy gets the remark. Not
        counted are choices that leave the model itself in the other mode (frozen batch normalization, Monte Carlo
        dropout), and a model whose only such modules belong to a frozen part. Some intended uses fire as well: a
        fine-tuning of all parameters without dropout by ``model.eval()``.
    Args:
        patience: Steps or calls in a row, >= 1.
    Source:
        Ours; ``torch.nn.Module.train``.
    """

    explains: ClassVar[tuple[str, ...]] = ("overfit", "metric_not_improving")

    patience: PositiveInt = 10

    def needs(self) -> Needs:
        return Needs(
            tuple(
                TensorNeed("checks", regex=f"{check}$", statistics=("value",), modes=("train", "eval"), every=_EVERY)
                for check in (_STEPS, _CALLS, _OTHERS, _FROZEN)
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], _Evaluations]:
        known: dict[tuple[str, str], _Evaluations] = memory or {}
        for reading in window.readings("value"):
            if reading.tensor.endswith(_CALLS):
                known.setdefault((reading.worker, reading.tensor), _Evaluations()).add(reading.value)
            elif reading.tensor.endswith(_OTHERS) and reading.value < math.inf:
                others = known.setdefault((reading.worker, reading.tensor), _Evaluations())
                others.others = max(others.others, int(reading.value))
            elif reading.tensor.endswith(_FROZEN) and reading.value < math.inf:
                known.setdefault((reading.worker, reading.tensor), _Evaluations()).frozen = int(reading.value)
        return known

    def evaluate(self, window: Window) -> Verdict:
        readings = [
            reading
            for reading in window.readings("value")
            if reading.value == reading.value and not reading.tensor.endswith((_OTHERS, _FROZEN))
        ]
        if not readings:
            return Undecided("no model was seen")
        counts = [reading for reading in readings if reading.value >= 0]
        if not counts:
            return NotApplicable("no trained model has dropout or batch normalization")
        worst = max(counts, key=lambda reading: reading.value)
        if worst.value >= self.patience:
            return self._fired(worst)
        for reading in counts:
            known = window.memory.get((reading.worker, reading.tensor))
            if known is not None and known.calls >= self.patience and known.count > 1 and known.has_pause:
                return self._fired(reading, known)
        if worst.value:
            return suspected(int(worst.value), self.patience, "steps or evaluated batches in a row")
        remarks = self._remarks(window.memory)
        return Clear({"remarks": remarks} if remarks else {})

    def _remarks(self, known: dict[tuple[str, str], _Evaluations]) -> list[str]:
        of_calls = [
            f"{tensor.rpartition('/')[0]} was called up to {of.others:,} times without gradients between two updates "
            "while dropout was active, and no loss was computed: what is sampled or predicted then is random, unless "
            "model.eval() comes before it"
            for (_, tensor), of in known.items()
            if of.others >= self.patience
        ]
        of_frozen = [
            f"{tensor.rpartition('/')[0]} was trained with {counted(of.frozen, 'frozen batch normalization')} in "
            "training mode, where the statistics of the batch are used, and the averages updated: requires_grad "
            "freezes weights alone, eval() on the module, after each model.train(), the rest"
            for (_, tensor), of in known.items()
            if of.frozen
        ]
        return [*of_calls[:1], *of_frozen[:1]]

    def _fired(self, worst: TensorReading, evaluations: _Evaluations | None = None) -> Fired:
        is_training = worst.tensor.endswith(_STEPS)
        model, count = worst.tensor.rpartition("/")[0], int(evaluations.calls if evaluations else worst.value)
        where = f"in {evaluations.count:,} evaluations" if evaluations else "in a row"
        return fired(
            f"{model}: {count:,} training steps in a row with all dropout and batch normalization in evaluation mode"
            if is_training
            else f"{model}: {count:,} batches {where} evaluated, a loss without gradients of each, while dropout or "
            "batch normalization was in training mode",
            worst,
            advice=_TRAINS_IN_EVAL_MODE if is_training else _EVALUATED_IN_TRAIN_MODE,
            evidence={"in_a_row": count, "patience": self.patience, "is_training": is_training},
        )
