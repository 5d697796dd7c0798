"""The rule overfit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from leadline.records.formatting import share as percent
from leadline.records.formatting import significant
from leadline.records.loss_roles import Role, role_of
from leadline.rules import Advice, Fired, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.bounds import NonNegativeFloat, NonNegativeInt, PositiveInt
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_selection

_MODES = ("train", "eval", "global")
_SUGGESTIONS = {
    False: Advice(
        "more regularization (dropout, weight_decay, augmentation), or early stopping at the best validation loss; "
        "usually the model is large for its data, or the two sets differ"
    ),
    True: Advice(
        "early_stopping_rounds, a smaller max_depth or eta, a larger min_child_weight, subsample below 1; usually the "
        "trees are deep for so few samples, or the two sets differ"
    ),
}
"""For a network, and for a booster."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Phase:
    """Losses between two switches from training to validation or back."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> _Phase:
        return _Phase(self.total + value, self.count + 1)

    @property
    def mean(self) -> float:
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class _Pair:
    """One loss in training and in validation."""

    training: _Phase = _Phase()
    """The latest phase of training."""
    evaluation: _Phase = _Phase()
    """The current evaluation, or the last one."""
    before: _Phase = _Phase()
    """The evaluation before it."""
    is_evaluating: bool = False
    streak: int = 0
    """Validation steps in a row at which the ratio was above the threshold."""

    def train(self, value: float) -> _Pair:
        training = (_Phase() if self.is_evaluating else self.training).add(value)
        return replace(self, training=training, is_evaluating=False)

    def validate(self, value: float) -> _Pair:
        if self.is_evaluating:
            return replace(self, evaluation=self.evaluation.add(value))
        return replace(self, before=self.evaluation, evaluation=_Phase().add(value), is_evaluating=True)

    @property
    def validation(self) -> float:
        """The mean of the evaluation; missing steps count as the mean of the previous evaluation."""
        missing = max(0, self.before.count - self.evaluation.count)
        if not missing:
            return self.evaluation.mean
        return (self.evaluation.total + missing * self.before.mean) / (self.evaluation.count + missing)

    @property
    def ratio(self) -> float:
        """The difference of validation and training loss, relative to training; NaN without both."""
        if not (self.training.count and self.evaluation.count):
            return math.nan
        train, gap = self.training.mean, self.validation - self.training.mean
        return gap / abs(train) if train else math.copysign(math.inf, gap) if gap else 0.0


class Overfit(Rule, frozen=True, kw_only=True):
    """Fires when the mean validation loss is above the mean training loss by more than a given ratio.

    Why it matters:
        A model that is much better on its training data has memorized the examples instead of what they have in
        common; it will perform worse on new data.
    How it decides:
        Fires if ``(mean validation loss - mean training loss) / abs(mean training loss) > ratio_threshold`` at
        ``patience`` saved validation steps in a row. The training loss is the mean since the previous evaluation.
        The validation loss is the mean of the current evaluation; steps that are still missing in comparison with
        the previous evaluation count with the mean of that one. Losses of the same name are compared: of train and
        eval steps, and pairs such as ``train-rmse`` and ``validation-rmse`` or ``loss`` and ``val_loss``.
    Not a number:
        A NaN or infinite loss is not included in the means (see ``exploding_tensor``).
    Blind spots:
        Dropout and augmentation raise the training loss, so that overfitting is detected late; the mean over a
        training phase is older than the validation after it. If the training loss is close to 0, every difference
        is a large ratio. The first batches of the first evaluation are a small sample: raise ``patience``. Without
        an evaluation in the run there is nothing to compare.
    Args:
        tensor_regex: Regular expressions (``re.search``); scalars whose names match are compared; none: the
            collection ``losses``.
        start_step: The train step from which losses are evaluated, >= 0.
        patience: Validation steps in a row above the threshold, >= 1.
        ratio_threshold: Largest ratio that is not a finding, >= 0.
    Source:
        SageMaker developer guide, "Overfit"; the choice of the losses in the means is ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("overtraining",)

    tensor_regex: tuple[str, ...] | None = None
    start_step: NonNegativeInt = 0
    patience: PositiveInt = 1
    ratio_threshold: NonNegativeFloat = 0.1

    def check(self) -> None:
        check_selection(self.name, None, self.tensor_regex)

    def needs(self) -> Needs:
        if self.tensor_regex is None:
            return Needs((TensorNeed("losses", statistics=("value",), modes=_MODES),))
        return Needs(
            tuple(TensorNeed(regex=pattern, statistics=("value",), modes=_MODES) for pattern in self.tensor_regex)
        )

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Pair]:
        pairs: dict[_Key, _Pair] = dict(memory or {})
        for role, key, reading in sorted(_losses(window), key=lambda loss: loss[0]):
            pair = pairs.get(key, _Pair())
            pairs[key] = (
                pair.train(reading.value) if role == "train" else self._count(pair.validate(reading.value), window)
            )
        return pairs

    def _count(self, pair: _Pair, window: Window) -> _Pair:
        is_above = window.step >= self.start_step and pair.ratio > self.ratio_threshold
        return replace(pair, streak=pair.streak + 1 if is_above else 0)

    def evaluate(self, window: Window) -> Verdict:
        validated = [(key, reading) for role, key, reading in _losses(window) if role == "validation"]
        if window.step < self.start_step:
            return Undecided(f"losses are compared from step {self.start_step:,}")
        judged = [(key, reading) for key, reading in validated if not math.isnan(window.memory[key].ratio)]
        if not judged:
            return Undecided("no loss was seen in training and then, at this step, in validation")
        for key, reading in judged:
            if window.memory[key].streak >= self.patience:
                return self._fired(reading, window.memory[key])
        return clear_if_complete(window, "losses")

    def _fired(self, reading: TensorReading, pair: _Pair) -> Fired:
        return fired(
            f"{reading.tensor}: validation loss {significant(pair.validation)} is "
            f"{percent(pair.ratio)} above training loss "
            f"{significant(pair.training.mean)}",
            reading,
            advice=_SUGGESTIONS[is_from_booster(reading)],
            evidence={
                "training_loss": pair.training.mean,
                "validation_loss": pair.validation,
                "ratio": pair.ratio,
                "threshold": self.ratio_threshold,
                "validation_steps": pair.streak,
            },
        )


def _losses(window: Window) -> list[tuple[Role, _Key, TensorReading]]:
    """Return the finite losses of a window: role, worker and name without the role, reading."""
    losses = []
    for reading in window.readings("value"):
        if math.isfinite(reading.value):
            role, stem = role_of(reading.tensor, reading.mode, reading.collections)
            losses.append((role, (reading.worker, stem), reading))
    return losses
