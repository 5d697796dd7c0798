"""The probe of gradients and updates that do not fit the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leadline.frameworks.check.learning import UNUSED_LOSS
from leadline.frameworks.check.outcome import Tested, not_applicable
from leadline.frameworks.check.updates import (
    MULTIPLES,
    STEPS,
    Gradients,
    Update,
    judge_gradients,
    judge_update,
)
from leadline.frameworks.pure_check.learning import Learning
from leadline.frameworks.pure_check.pure_step import Array, PureStep

Arrays = Sequence[Array | None]


def update_size(learning: Learning) -> Tested:
    """Compare the gradients with those of the loss, and follow the loss along the update."""
    step, expected = learning.step, learning.gradients
    if not any(gradient is not None for gradient in expected):
        return not_applicable(UNUSED_LOSS)
    used = step.used_gradients()
    evidence = {}
    if used is not None:
        compared = Gradients(_cosine(used, expected), _norm(used), _norm(expected))
        if (wrong := judge_gradients(compared)) is not None:
            return wrong
        evidence = compared.evidence
    elif not 0 < _norm(expected) < math.inf:
        return not_applicable("the gradient of this batch is 0, or not finite")
    own = step.own_optimizer()
    if own is None:
        return not_applicable("the update of the optimizer cannot be computed again")
    _, after = own.advance(None)
    updates = _difference(after, step.weights)
    losses = {multiple: _loss_at(step, updates, multiple) for multiple in MULTIPLES}
    update = Update(losses, lambda: _climb_later(step), step.rate, step.is_adaptive, step.is_warming_up)
    return judge_update(update, evidence, cosine=_cosine(updates, expected))


def _loss_at(step: PureStep, updates: Sequence[Array], multiple: float) -> float:
    weights = [
        (weight + multiple * update).astype(weight.dtype) for weight, update in zip(step.weights, updates, strict=True)
    ]
    return step.compute(weights=weights).loss


def _climb_later(step: PureStep) -> float:
    """Return the cosine of update and gradient after some steps on the same batch: until then momentum is of others."""
    own = step.own_optimizer()
    weights, climb = step.weights, 0.0
    for _ in range(STEPS if own is not None else 0):
        assert own is not None
        gradients = step.compute(weights=weights, gradients=True).gradients
        before = weights
        _, weights = own.advance(None)
        climb = _cosine(_difference(weights, before), gradients)
    return climb


def _difference(after: Sequence[Array], before: Sequence[Array]) -> list[Array]:
    return [new.astype(np.float64) - old for new, old in zip(after, before, strict=True)]


def _norm(arrays: Arrays) -> float:
    return math.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays if array is not None))


def _cosine(first: Arrays, second: Arrays) -> float:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    sizes = _norm([a for a, _ in pairs]) * _norm([b for _, b in pairs])
    dot = sum(float((a.astype(np.float64) * b).sum()) for a, b in pairs)
    return dot / sizes if sizes else 0.0
