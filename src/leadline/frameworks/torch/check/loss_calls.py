"""The calls of standard losses in a step."""

from __future__ import annotations

from typing import Any, Final

import torch

from leadline.frameworks.torch.check.step_copy import Repeated, StepCopy
from leadline.frameworks.torch.check.step_tape import RecordedCall
from leadline.frameworks.torch.hooks.function_mode import LOSS_KINDS

_TARGET: Final = ("target", "targets")
_TARGET_POSITION: Final = 1
_SAME: Final = 1e-4


def loss_calls(calls: list[RecordedCall]) -> list[RecordedCall]:
    """Return the calls of PyTorch's losses that return a scalar."""
    return [
        call
        for call in calls
        if not call.is_model
        and getattr(call.function, "__name__", "") in LOSS_KINDS
        and isinstance(call.output, torch.Tensor)
        and call.output.numel() == 1
    ]


def target_of(call: RecordedCall) -> torch.Tensor | None:
    """Return the target that a loss was given; None: it has none."""
    given: Any = next((call.kwargs[name] for name in _TARGET if name in call.kwargs), None)
    if given is None and len(call.args) > _TARGET_POSITION:
        given = call.args[_TARGET_POSITION]
    return given if isinstance(given, torch.Tensor) else None


def targets_of(step: StepCopy) -> set[int]:
    """Return the targets of PyTorch's losses in a step, and the tensors that they were computed from."""
    found = {id(target) for call in loss_calls(step.calls) if (target := target_of(call)) is not None}
    for call in reversed(step.tape.calls):
        if found & set(call.produced):
            found |= set(call.consumed)
    return found


def values_of(calls: list[RecordedCall], repeated: Repeated) -> list[float]:
    """Return the values of losses in a repeated step."""
    return [float(repeated[id(call.output)].detach()) for call in calls]


def calls_of(step: StepCopy, loss: int) -> list[RecordedCall]:
    """Return the calls that a loss of the step, or a term of one, depends on, in their order."""
    needed, kept = {loss}, []
    for call in reversed(step.tape.calls):
        if needed & set(call.produced):
            kept.append(call)
            needed |= set(call.consumed)
    return kept[::-1]


def count_of(call: RecordedCall, ignored: int) -> int:
    """Return how many targets of a call count in its mean; 0: it has no integer targets."""
    target = target_of(call)
    if target is None or target.is_floating_point():
        return 0
    return int((target != call.kwargs.get("ignore_index", ignored)).sum())


def constant_loss(calls: list[RecordedCall], loss: float) -> float | None:
    """Return the least value of a loss that any constant prediction can reach on its batch; None: it is not known.

    Args:
        calls: The standard losses of a step.
        loss: The loss of the step, which must be that of one of them.
    """
    if len(calls) != 1 or abs(float(calls[0].output.detach()) - loss) > _SAME * abs(loss):
        return None
    call, target = calls[0], target_of(calls[0])
    name = getattr(call.function, "__name__", "")
    if (
        target is None
        or not varies(call)
        or call.kwargs.get("weight") is not None
        or call.kwargs.get("label_smoothing")
    ):
        return None
    if name in ("cross_entropy", "nll_loss") and not target.is_floating_point():
        real = target[target != call.kwargs.get("ignore_index", -100)]
        shares = torch.unique(real, return_counts=True)[1].double() / max(real.numel(), 1)
        return float(-(shares * shares.log()).sum())
    rows = target.detach().double().reshape(target.shape[0], -1)
    if name == "mse_loss":
        return float(rows.var(0, unbiased=False).mean())
    if name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        share = rows.mean(0).clamp(1e-12, 1 - 1e-12)
        return float(-(share * share.log() + (1 - share) * (1 - share).log()).mean())
    return None


def varies(call: RecordedCall) -> bool:
    """Return whether a loss has targets that differ from sample to sample."""
    target = target_of(call)
    return target is not None and target.numel() > 1 and bool((target != target.flatten()[0]).any())
