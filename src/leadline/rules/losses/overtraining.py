"""The rule overtraining."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.roles import Role, role_of
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_Patience = Annotated[int, msgspec.Meta(ge=1)]
_Key = tuple[str, str, Role]


@dataclass(frozen=True, slots=True)
class _Best:
    """The best value of a loss so far."""

    value: float
    mode_step: int
    since: int = 0
    """Saved values after it, none of them a new best."""


class Overtraining(Rule, frozen=True, kw_only=True):
    """Fires when a loss has not reached a new best for some saved steps.

    Why it matters:
        A model that is trained on after its loss has stopped improving costs by the hour, and often gets worse on
        what it was not trained on.
    How it decides:
        A loss is a new best when it is below the best so far by more than ``delta``. It fires when the last
        ``patience_train`` saved training losses were none, or the last ``patience_validation`` saved validation
        losses. A loss of an eval step is of validation, as is one called ``val_loss``, ``validation-rmse`` or the
        like.
    Not a number:
        A NaN or infinite loss is neither a best nor counted (``exploding_tensor`` is there for it); where none is
        finite, undecided.
    Blind spots:
        Losses of single batches are noisy: with Amazon's 5 it fires on most healthy runs that save the loss every
        step. Raise ``patience_train``, or save the loss less often. ``delta`` is absolute: at a loss of 0.01 the
        default sees no improvement at all.
    Args:
        patience_train: Saved training losses without a new best, >= 1.
        patience_validation: Saved validation losses without a new best, >= 1.
        delta: How far below the best a loss must be to be a new one, >= 0, in the loss's unit.
    Source:
        SageMaker developer guide, "Overtraining" (its older text has a ``delta`` of 0.1).
    """

    patience_train: _Patience = 5
    patience_validation: _Patience = 10
    delta: Annotated[float, msgspec.Meta(ge=0)] = 0.01

    def needs(self) -> Needs:
        return Needs((TensorNeed("losses", statistics=("value",), modes=("train", "eval", "global")),))

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Best]:
        bests: dict[_Key, _Best] = dict(memory or {})
        for each in window.readings("value"):
            key = _key(each)
            known = bests.get(key)
            if not math.isfinite(each.value):
                continue
            if known is None or each.value < known.value - self.delta:
                bests[key] = _Best(each.value, each.mode_step)
            else:
                bests[key] = replace(known, since=known.since + 1)
        return bests

    def evaluate(self, window: Window) -> Verdict:
        finite = [each for each in window.readings("value") if math.isfinite(each.value)]
        if not finite:
            return Undecided("no loss was finite at this step")
        stuck = [each for each in finite if window.memory[_key(each)].since >= self._patience(each)]
        if not stuck:
            return Undecided("part of the losses at this step was lost") if window.is_thinned else Clear()
        worst = max(stuck, key=lambda each: window.memory[_key(each)].since / self._patience(each))
        return self._fired(worst, window.memory[_key(worst)], tuple(dict.fromkeys(each.tensor for each in stuck)))

    def _patience(self, reading: TensorReading) -> int:
        return self.patience_train if role_of(reading)[0] == "train" else self.patience_validation

    def _fired(self, worst: TensorReading, best: _Best, tensors: tuple[str, ...]) -> Fired:
        role, _ = role_of(worst)
        kind = "training" if role == "train" else "validation"
        return Fired(
            f"{worst.tensor}: no new best in {best.since:,} saved {kind} losses: {worst.value:.4g} now, "
            f"{best.value:.4g} at step {best.mode_step:,}" + and_more(len(tensors) - 1, "loss"),
            tensors=(worst.tensor, *(each for each in tensors if each != worst.tensor)),
            evidence={
                "best": best.value,
                "best_step": best.mode_step,
                "now": worst.value,
                "saved_steps": best.since,
                "patience": self._patience(worst),
                "delta": self.delta,
            },
            suggestion="early stopping with the checkpoint of the best step, or a lower learning rate from here on; "
            + (
                "usually the model has learned what it can at this rate, or single batches are noisy"
                if role == "train"
                else "usually the model has begun to learn its training set by heart"
            ),
            worker=worst.worker,
        )


def _key(reading: TensorReading) -> _Key:
    return reading.worker, reading.tensor, role_of(reading)[0]
