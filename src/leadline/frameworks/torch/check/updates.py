"""The probe of gradients and updates that do not fit the loss."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch

from leadline.frameworks.check.outcome import Tested, not_applicable
from leadline.frameworks.check.updates import (
    EQUAL,
    MULTIPLES,
    STEPS,
    Gradients,
    Update,
    judge_gradients,
    judge_no_update,
    judge_update,
)
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import StepCopy, planned_rate


def update_size(subject: CheckedStep) -> Tested:
    """Compare the gradients with those of the repeated loss, and follow the loss along the update."""
    step = subject.step
    given = [parameter.grad for parameter in step.parameters]
    if any(gradient is not None and gradient.is_sparse for gradient in given):
        return not_applicable("the gradients are sparse")
    total = _total_gradients(step)
    size = math.sqrt(sum(float((g.double() ** 2).sum()) for g in given if g is not None))
    expected = math.sqrt(sum(float((g.double() ** 2).sum()) for g in total if g is not None))
    is_distributed = _is_distributed()
    used = Gradients(
        _cosine(given, total),
        size,
        expected,
        not is_distributed,
        lambda: _is_left_over(step, given, total),
        lambda: _decay(step, given, total),
    )
    if (wrong := judge_gradients(used)) is not None:
        return wrong
    along = _along_update(step, total)
    groups = step.optimizer.param_groups
    if along is None:
        return judge_no_update([group["lr"] for group in groups if "lr" in group], step.step_number, used.evidence)
    losses, cosine = along
    update = Update(
        losses,
        lambda: _climb_later(step),
        max((float(group["lr"]) for group in groups if "lr" in group), default=0.0),
        _is_adaptive(step),
        any(planned_rate(group) > 2 * group["lr"] for group in groups if "lr" in group),
    )
    return judge_update(update, used.evidence, cosine=cosine, is_shared=is_distributed)


def _is_left_over(step: StepCopy, given: Sequence[torch.Tensor | None], total: Sequence[torch.Tensor | None]) -> bool:
    """Whether every gradient is the sum of the one before the step and that of the step's loss."""
    compared = False
    for parameter, gradient, own in zip(step.parameters, given, total, strict=True):
        before = step.tape.left_over.get(id(parameter))
        if before is None or gradient is None or own is None:
            continue
        sample, new = gradient.flatten()[: len(before)], own.flatten()[: len(before)]
        if float((sample - new - before).norm()) > EQUAL * float(sample.norm()):
            return False
        compared = compared or float(before.norm()) > EQUAL * float(sample.norm())
    return compared


def _decay(step: StepCopy, given: Sequence[torch.Tensor | None], total: Sequence[torch.Tensor | None]) -> float:
    """Return the cosine of the weights and of what the gradients have beside those of the loss; 0: nothing."""
    rest = [None if a is None or b is None else a - b for a, b in zip(given, total, strict=True)]
    size = math.sqrt(sum(float((r.double() ** 2).sum()) for r in rest if r is not None))
    whole = math.sqrt(sum(float((g.double() ** 2).sum()) for g in given if g is not None))
    return _cosine(rest, [p.detach() for p in step.parameters]) if size > 10 * EQUAL * whole else 0.0


def _is_adaptive(step: StepCopy) -> bool:
    states = (state for state in step.optimizer.state.values() if isinstance(state, dict))
    return any(key in state for state in states for key in ("exp_avg_sq", "square_avg", "sum", "acc_delta"))


def _total_gradients(step: StepCopy) -> list[torch.Tensor | None]:
    """Return the sum of the gradients of all backward passes of the step that reach the parameters."""
    total: list[torch.Tensor | None] = [None] * len(step.parameters)
    for loss in step.losses:
        own = step.own_gradients if loss == step.loss else step.gradients(loss=loss)
        for position, gradient in enumerate(own):
            if gradient is not None:
                before = total[position]
                total[position] = gradient if before is None else before + gradient
    return total


def _along_update(step: StepCopy, gradients: list[torch.Tensor | None]) -> tuple[dict[float, float], float] | None:
    """Return the loss at multiples of the update, and the cosine of the update and the gradient of the loss.

    None: the update changes no parameter.
    """
    optimizer = step.optimizer
    state = copy.deepcopy(optimizer.state_dict())
    with step.other_weights():
        origin = [parameter.detach().clone() for parameter in step.parameters]
        optimizer.step()
        updates = [p.detach() - before for p, before in zip(step.parameters, origin, strict=True)]
        if not any(bool(update.any()) for update in updates):
            optimizer.load_state_dict(state)
            return None
        climb = _cosine(updates, gradients)
        losses = {}
        for multiple in MULTIPLES:
            with torch.no_grad():
                for parameter, before, update in zip(step.parameters, origin, updates, strict=True):
                    parameter.copy_(before + multiple * update)
            losses[multiple] = float((step.run(gradients=False) if multiple else step.base).loss)
        optimizer.load_state_dict(state)
    return losses, climb


def _climb_later(step: StepCopy) -> float:
    """Return the cosine of update and gradient after some steps on the same batch: until then momentum is of others."""
    state = copy.deepcopy(step.optimizer.state_dict())
    climb = 0.0
    with step.other_weights():
        for _ in range(STEPS):
            gradients = step.gradients()
            before = [parameter.detach().clone() for parameter in step.parameters]
            for parameter, gradient in zip(step.parameters, gradients, strict=True):
                parameter.grad = gradient
            step.optimizer.step()
            updates = [p.detach() - old for p, old in zip(step.parameters, before, strict=True)]
            climb = _cosine(updates, gradients)
    step.optimizer.load_state_dict(state)
    return climb


def _cosine(first: Sequence[torch.Tensor | None], second: Sequence[torch.Tensor | None]) -> float:
    pairs = [
        (a.double().flatten(), b.double().flatten())
        for a, b in zip(first, second, strict=True)
        if a is not None and b is not None
    ]
    sizes = [math.sqrt(sum(float((pair[side] ** 2).sum()) for pair in pairs)) for side in (0, 1)]
    dot = sum(float(a @ b) for a, b in pairs)
    return dot / (sizes[0] * sizes[1]) if sizes[0] and sizes[1] else 0.0


def _is_distributed() -> bool:
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)
