"""Terms of a loss that give no gradient to the weights that are updated with it, or next to none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import torch

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.capture.autograd_graph import leaf_ids
from leadline.frameworks.torch.check.loss_calls import calls_of, loss_calls
from leadline.frameworks.torch.check.step_copy import StepCopy, function_name
from leadline.frameworks.torch.check.step_tape import RecordedCall

_ZERO: Final = 1e-6
_OUTWEIGHED: Final = 1000.0
_SETTLED: Final = 100
"""The step from which a term that outweighs all others is named: at the start terms are often far apart."""
_SAME: Final = 1e-6
_ADVICE: Final = (
    "compute it from what is to be trained: look for detach(), .data, no_grad() and argmax before it, and for the "
    "variable of another model among its arguments"
)
_ADVICE_SCALE: Final = (
    "bring the terms to one scale: targets with a spread of about 1, the same reduction, or a weight for each term"
)


class _Update(NamedTuple):
    """The losses whose gradients an optimizer has used, by their identities."""

    losses: Sequence[int]
    optimizer: Any

    @property
    def trained(self) -> list[torch.Tensor]:
        """The parameters that it holds and that may have gradients."""
        groups = self.optimizer.param_groups
        return [parameter for group in groups for parameter in group["params"] if parameter.requires_grad]


def idle_term(step: StepCopy) -> Tested | None:
    """Return the failure if a standard loss is a term of a loss, and no weight is updated by it."""
    latest = {id(optimizer): _Update(losses, optimizer) for losses, optimizer in step.losses_of_others()}
    updates = [*latest.values(), _Update(step.losses, step.optimizer)]
    for update in updates:
        for loss in update.losses:
            if any(_is_constant_gradient(step, loss, call, update) for call in calls_of(step, loss)):
                return failed(
                    "a gradient is a term of the loss and gives no weight a gradient itself: it was computed without "
                    "create_graph=True",
                    "torch.autograd.grad(..., create_graph=True): without it a penalty is a number that is only added",
                )
            for term in loss_calls(calls_of(step, loss)):
                why = _why_constant(step, loss, term, update) if not term.output.requires_grad else ""
                why = why or _why_of_others(term, update, updates)
                if why:
                    return failed(
                        f"{function_name(term)} is a term of the loss {why}", _ADVICE, term=function_name(term)
                    )
    return None


def _is_constant_gradient(step: StepCopy, loss: int, call: RecordedCall, update: _Update) -> bool:
    """Whether a call computes gradients that are added to a loss, as a penalty is, and that cannot be differentiated.

    Those that choose an adversarial input, or weigh a term, are not added.
    """
    if call.function is not torch.autograd.grad or any(step.tape.tensors[key].requires_grad for key in call.produced):
        return False
    return _is_added(step, loss, call, update)


def outweighed_term(step: StepCopy) -> Tested | None:
    """Return the failure if one of several losses that are summed with the same weight outweighs all others."""
    if step.step_number < _SETTLED:
        return None
    for loss in step.losses:
        terms = {id(term.output): term for term in loss_calls(calls_of(step, loss)) if term.output.requires_grad}
        leaves = {key: term.output.detach().clone().requires_grad_() for key, term in terms.items()}
        if len(leaves) < 2:
            continue
        total = step.run(leaves, loss=loss).loss
        weights = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        if any(weight is None for weight in weights) or not _are_equal([float(weight) for weight in weights]):
            continue
        *others, largest = sorted(terms.values(), key=lambda term: abs(float(term.output.detach())))
        value, next_largest = (float(term.output.detach()) for term in (largest, others[-1]))
        if abs(value) > _OUTWEIGHED * abs(next_largest) > 0:
            names = function_name(largest), function_name(others[-1])
            return failed(
                f"of the losses that are summed, {names[0]} is {value:,.4g} and {names[1]} {next_largest:.3g}: the "
                "updates are those of the first alone",
                _ADVICE_SCALE,
                terms=[value, next_largest],
            )
    return None


def _are_equal(weights: Sequence[float]) -> bool:
    return all(abs(first - second) <= _SAME * abs(first) for first, second in pairwise(weights))


def _why_constant(step: StepCopy, loss: int, term: RecordedCall, update: _Update) -> str:
    """Return how a term without a gradient is cut off from the weights; "": it is no mistake, or not added."""
    calls = reversed(calls_of(step, id(term.output)))
    cut = next((why for call in calls if (why := _cut_by(step, call))), "")
    value = float(term.output.detach())
    if not cut and abs(value) > _ZERO:
        return ""  # a part that is frozen on purpose
    if not _is_added(step, loss, term, update):
        return ""
    if not cut:
        return f"and depends on no trained weight: it is {value:.2g}, as if its arguments were equal"
    return f"and depends on no trained weight: {cut}"


def _cut_by(step: StepCopy, call: RecordedCall) -> str:
    """Return how a call cuts its output off from the weights behind its arguments; "": it does not."""
    tensors = step.tape.tensors
    if any(tensors[key].requires_grad for key in call.produced):
        return ""
    if call.is_model:
        is_trained = any(parameter.requires_grad for parameter in call.function.parameters())  # type: ignore[attr-defined]
        return f"{function_name(call)} is called without gradients" if is_trained and not call.has_gradients else ""
    if not any(tensors[key].requires_grad for key in call.consumed):
        return ""
    name = {"__get__": ".data"}.get(function_name(call), f"{function_name(call)}()")
    return f"{name} cuts it off" if call.has_gradients else "it is computed without gradients"


def _is_added(step: StepCopy, loss: int, term: RecordedCall, update: _Update) -> bool:
    """Whether a change of a term changes the loss, and no gradient: the term is added, and no factor."""
    entering = _entering(step, term)
    if entering is None:
        return False
    before = step.run(loss=loss).loss
    after = step.run({id(entering): entering.detach() + 1}, loss=loss).loss
    if not before.requires_grad or bool(before.detach() == after.detach()):
        return False
    first, last = (torch.autograd.grad(value, update.trained, allow_unused=True) for value in (before, after))
    return all((a is None and b is None) or torch.equal(a, b) for a, b in zip(first, last, strict=True))


def _entering(step: StepCopy, term: RecordedCall) -> torch.Tensor | None:
    """Return what becomes of a term without a gradient, as it meets what has one; None: it never does."""
    follows = set(term.produced)
    for call in step.tape.calls:
        met = follows & set(call.consumed)
        if met and any(step.tape.tensors[key].requires_grad for key in call.produced):
            return step.tape.tensors[met.pop()]
        if met:
            follows |= set(call.produced)
    return None


def _why_of_others(term: RecordedCall, update: _Update, updates: Sequence[_Update]) -> str:
    """Return that a term reaches only weights of other optimizers, which use gradients of their own; "": it does not.

    An optimizer that steps without a backward pass of its own uses this one's.
    """
    theirs = {id(p) for other in updates if other.losses for p in other.trained}
    own = {id(parameter) for parameter in update.trained}
    reached = leaf_ids(term.output.grad_fn)
    if reached is None or not reached or reached & own or not reached <= theirs:
        return ""
    return (
        f"that {type(update.optimizer).__name__} over {len(own)} parameters minimizes, and gives none of them a "
        "gradient: it only reaches weights of another optimizer, which uses gradients of its own"
    )
