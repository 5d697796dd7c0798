"""The probe of gradients that are accumulated over several backward passes."""

from __future__ import annotations

import math
from typing import Final

import torch

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, passed
from leadline.frameworks.check.samples import IGNORED
from leadline.frameworks.torch.check.loss_calls import calls_of, count_of, loss_calls, varies
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import StepCopy
from leadline.frameworks.torch.check.step_tape import tensors_in

_EQUAL: Final = 0.02
_OTHER: Final = 0.1
_UNEQUAL: Final = 1.2


def gradient_of_parts(subject: CheckedStep) -> Tested:
    """Compare the gradients of a step with the sum over its backward passes, and the factors of their losses."""
    step = subject.step
    unused = _unused_passes(step)
    if unused is not None:
        return unused
    passes = [
        (loss, list(step.own_gradients) if loss == step.loss else step.gradients(loss=loss))
        for loss in step.losses
        if len(step.losses) > 1
    ]
    reached = [(loss, found) for loss, found in passes if any(gradient is not None for gradient in found)]
    if len(reached) < 2:
        return not_applicable("the step has one backward pass")
    given = [parameter.grad for parameter in step.parameters]
    flat = _flat(step, given)
    parts = [_flat(step, gradients) for _, gradients in reached]
    total = torch.stack(parts).sum(0)
    count = len(parts)
    size = float(flat.norm())
    if not math.isfinite(size) or size == 0:
        return not_applicable("the gradients are 0, or not finite")
    cosine = float(flat @ total) / (size * float(total.norm()) or 1.0)
    from_last = float((flat - parts[-1]).norm()) / size
    from_total = float((flat - total).norm()) / size
    if from_last < _EQUAL and from_total > _OTHER:
        return failed(
            f"the step has {count} backward passes, and its gradients are those of the last one alone",
            "call zero_grad once before the first of the passes, not before each",
            passes=count,
        )
    factors = [_factor(step, loss) for loss, _ in reached]
    known = [factor for factor in factors if factor is not None]
    if len(known) == count and cosine > 1 - _EQUAL:
        if all(abs(factor - 1) < _EQUAL for factor in known):
            return failed(
                f"the mean losses of {count} micro-batches are added: the gradient is {count} times that of their mean",
                f"divide each loss by {count} before backward",
                passes=count,
            )
        if all(abs(factor * count * count - 1) < _EQUAL for factor in known):
            return failed(
                f"the losses of {count} micro-batches are divided by {count} twice",
                "divide once: Accelerate and Lightning divide by themselves",
                passes=count,
            )
        counts = [_count(step, loss) for loss, _ in reached]
        if all(counts) and max(counts) > _UNEQUAL * min(counts) and max(known) - min(known) < _EQUAL * max(known):
            return failed(
                f"{count} micro-batches with {min(counts):,} to {max(counts):,} labels count the same: the gradient is "
                "the mean of means, not of all labels",
                "sum the losses, and divide by the number of labels of the whole step",
                labels=counts,
            )
    return passed(f"{count} backward passes add up to the gradients of the step", passes=count, cosine=cosine)


def _unused_passes(step: StepCopy) -> Tested | None:
    """Return the failure if a model was called several times with gradients, and not every call enters a loss."""
    used = {id(call) for loss in step.losses for call in calls_of(step, loss)}
    for module in step.modules:
        calls = [
            call
            for call in step.tape.calls[step.tape.begun_at :]
            if call.function is module and call.has_gradients and any(t.requires_grad for t in tensors_in(call.output))
        ]
        outside = [call for call in calls if id(call) not in used]
        label = step.labels[module] or type(module).__name__
        if outside and len(outside) < len(calls):
            return failed(
                f"{len(outside)} of {len(calls)} forward passes of {label} in this step enter no loss",
                "add their losses up, or call backward for each; use no_grad for what is not trained on",
                unused=len(outside),
            )
    return None


def _flat(step: StepCopy, gradients: list[torch.Tensor | None]) -> torch.Tensor:
    return torch.cat(
        [
            (torch.zeros_like(parameter) if gradient is None else gradient.detach()).flatten().double()
            for parameter, gradient in zip(step.parameters, gradients, strict=True)
        ]
    )


def _factor(step: StepCopy, loss: int) -> float | None:
    """Return what a backward pass begins at, as a multiple of the one standard loss that it depends on."""
    calls = loss_calls(calls_of(step, loss))
    if len(calls) != 1 or not varies(calls[0]):
        return None
    value = float(calls[0].output.detach())
    reduction = calls[0].kwargs.get("reduction", "mean")
    return float(step.tape.tensors[loss].detach()) / value if value and reduction == "mean" else None


def _count(step: StepCopy, loss: int) -> int:
    return count_of(loss_calls(calls_of(step, loss))[0], IGNORED)
