"""The rule overtraining."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.records.formatting import significant
from leadline.records.loss_roles import Role, role_of
from leadline.rules import Advice, Fired, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat, PositiveInt
from leadline.rules.messages import clear_if_complete, fired

_Key = tuple[str, str, Role]
_TRAINING: Final = Advice(
    "early stopping with the checkpoint of the best step, or a lower learning rate from here on; usually the model has "
    "learned what it can at this rate, or single batches are noisy"
)
_VALIDATION: Final = Advice(
    "early stopping with the checkpoint of the best step, or a lower learning rate from here on; usually the model has "
    "begun to memorize its training set"
)


@dataclass(frozen=True, slots=True)
class _Best:
    """The best value of a loss so far."""

    value: float
    step: int
    """The train step; of a validation loss, the train step that had been finished."""
    since: int = 0
    """The number of saved values since then."""


class Overtraining(Rule, frozen=True, kw_only=True):
    """Fires when a loss has not reached a new best for some saved steps.

    Why it matters:
        Training on after the loss has stopped improving costs money, and often makes the model worse on new data.
    How it decides:
        A loss is a new best if it is below the best so far by more than ``delta``. Fires if none of the last
        ``patience_train`` saved training losses, or none of the last ``patience_validation`` saved validation
        losses, was a new best. A loss of an eval step is a validation loss, as is one with a name such as
        ``val_loss`` or ``validation-rmse``.
    Not a number:
        A NaN or infinite loss is neither a best nor counted (see ``exploding_tensor``); undecided if none is
        finite.
    Blind spots:
        Losses of single batches are noisy: with SageMaker's default of 5 it fires in most healthy runs that save
        the loss at every step. Raise ``patience_train``, or save the loss less often. ``delta`` is absolute: for a
        loss of 0.01 the default never sees an improvement.
    Args:
        patience_train: Saved training losses without a new best, >= 1.
        patience_validation: Saved validation losses without a new best, >= 1.
        delta: How far below the best a loss must be to be a new one, >= 0, in the loss's unit.
    Source:
        SageMaker developer guide, "Overtraining" (its older text has a ``delta`` of 0.1).
    """

    patience_train: PositiveInt = 5
    patience_validation: PositiveInt = 10
    delta: NonNegativeFloat = 0.01

    def needs(self) -> Needs:
        return Needs((TensorNeed("losses", statistics=("value",), modes=("train", "eval", "global")),))

    @property
    def least_observations(self) -> int:
        return self.patience_train + 1

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Best]:
        bests: dict[_Key, _Best] = dict(memory or {})
        for reading in window.readings("value"):
            key = _key(reading)
            known = bests.get(key)
            if not math.isfinite(reading.value):
                continue
            if known is None or reading.value < known.value - self.delta:
                bests[key] = _Best(reading.value, window.step)
            else:
                bests[key] = replace(known, since=known.since + 1)
        return bests

    def evaluate(self, window: Window) -> Verdict:
        finite = [reading for reading in window.readings("value") if math.isfinite(reading.value)]
        if not finite:
            return Undecided("no loss was finite at this step")
        stuck = [reading for reading in finite if window.memory[_key(reading)].since >= self._patience(reading)]
        if not stuck:
            return clear_if_complete(window, "losses")
        worst = max(stuck, key=lambda reading: window.memory[_key(reading)].since / self._patience(reading))
        return self._fired(worst, window.memory[_key(worst)], stuck)

    def _patience(self, reading: TensorReading) -> int:
        return self.patience_train if _role(reading) == "train" else self.patience_validation

    def _fired(self, worst: TensorReading, best: _Best, stuck: list[TensorReading]) -> Fired:
        role = _role(worst)
        kind = "training" if role == "train" else "validation"
        return fired(
            f"{worst.tensor}: no new best in {best.since:,} saved {kind} losses: {significant(worst.value)} now, "
            f"{significant(best.value)} at step {best.step:,}",
            worst,
            *stuck,
            advice=_TRAINING if role == "train" else _VALIDATION,
            evidence={
                "best": best.value,
                "best_step": best.step,
                "now": worst.value,
                "saved_steps": best.since,
                "patience": self._patience(worst),
                "delta": self.delta,
            },
            noun="loss",
        )


def _role(reading: TensorReading) -> Role:
    return role_of(reading.tensor, reading.mode, reading.collections)[0]


def _key(reading: TensorReading) -> _Key:
    return reading.worker, reading.tensor, _role(reading)
