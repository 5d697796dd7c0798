"""The probe of inputs and parameters that the loss does not depend on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch

from leadline.frameworks.check.influence import (
    ADVICE_PARAMETERS,
    MIN_FEATURES,
    NO_MODEL,
    all_used,
    dead_features,
    ignored_inputs,
    is_expert,
    left_out,
    unused_parameters,
)
from leadline.frameworks.check.learning import UNUSED_LOSS
from leadline.frameworks.check.outcome import Tested, failed, not_applicable
from leadline.frameworks.torch.check.batch import Input
from leadline.frameworks.torch.check.idle_terms import idle_term, outweighed_term
from leadline.frameworks.torch.check.outcome import CheckedStep

_SEQUENCE_NDIM: Final = 3
"""Of samples, channels or positions, and positions or features."""
_STRIDED: Final = (torch.nn.Conv1d, torch.nn.MaxPool1d, torch.nn.AvgPool1d, torch.nn.LPPool1d)


def unused_inputs(subject: CheckedStep) -> Tested:
    """Exchange each input among the samples, and look at the gradients of features and parameters."""
    step, batch = subject.step, subject.batch
    if not batch.model_calls:
        return not_applicable(NO_MODEL)
    found = _unused_parameters(subject)
    if found is not None:
        return found
    if (idle := idle_term(step) or outweighed_term(step)) is not None:
        return idle
    if batch.size < 2 or not batch.inputs:
        return all_used(0, len(step.parameters))
    ignored = [item.name for item in batch.inputs if _is_ignored(subject, item)]
    if ignored:
        return ignored_inputs(ignored)
    for item in batch.inputs:
        features = _dead_features(subject, item)
        if features:
            return dead_features(item.name, features, _features(item), _noun(item))
    return all_used(len(batch.inputs), len(step.parameters))


def _unused_parameters(subject: CheckedStep) -> Tested | None:
    step = subject.step
    gradients = list(step.own_gradients)
    if not gradients:
        return failed(UNUSED_LOSS, ADVICE_PARAMETERS)
    others = [key for key in step.losses if key != step.loss]
    for key in others:
        for position, gradient in enumerate(step.gradients(loss=key)):
            gradients[position] = gradient if gradients[position] is None else gradients[position]
    used = {id(p) for p, gradient in zip(step.parameters, gradients, strict=True) if gradient is not None}
    unused = [p for p in step.parameters if id(p) not in used and not step.optimizer.state.get(p)]
    matrices = [p for p in unused if p.ndim >= 2 and not is_expert(step.name(p)) and p.grad is None]
    if matrices:
        names = [step.name(parameter) for parameter in matrices]
        share = sum(p.numel() for p in matrices) / sum(p.numel() for p in step.parameters)
        return unused_parameters(names, share)
    return _out_of_optimizers(subject)


def _out_of_optimizers(subject: CheckedStep) -> Tested | None:
    """Return the failure if parameters get gradients, and no optimizer that has stepped holds them."""
    step = subject.step
    held = {
        id(parameter)
        for optimizer in (step.optimizer, *step.others)
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    rest = [
        parameter
        for module in step.modules
        for parameter in module.parameters()
        if parameter.requires_grad and id(parameter) not in held
    ]
    if not rest or step.others:
        return None
    loss = step.run().loss
    gradients = torch.autograd.grad(loss, rest, allow_unused=True)
    missing = [p for p, g in zip(rest, gradients, strict=True) if g is not None and bool((g != 0).any())]
    if not missing:
        return None
    names = [step.name(parameter) for parameter in missing]
    return left_out(
        names, "give the optimizer all parameters that are to be trained, or set requires_grad_(False) on the others"
    )


def _is_ignored(subject: CheckedStep, item: Input) -> bool:
    """Whether an input of other samples in half of the batch leaves the loss and the predictions as they are."""
    if item.axis is None or bool(((item.value == 0) | (item.value == 1)).all()):
        return False  # of a mask, padding_influence tells more
    chosen = torch.arange(subject.batch.size)
    half = len(chosen) // 2
    chosen[:half] = chosen[half : 2 * half].clone()
    value = item.with_samples(chosen)
    if torch.equal(value, item.value):
        return False
    step = subject.step
    before, after = step.base, step.run({item.key: value}, gradients=False)
    if not torch.equal(before.loss, after.loss):
        return False
    return all(torch.equal(before[p.key], after[p.key]) for p in subject.batch.predictions if p.key in after)


def _features(item: Input) -> int:
    value = item.value
    return int(value.shape[1] if value.ndim >= 4 else value.shape[-1])


def _noun(item: Input) -> str:
    return "channel" if item.value.ndim >= 4 else "feature"


def _dead_features(subject: CheckedStep, item: Input) -> list[int]:
    """Return the features, or channels of images, for which the gradient of the loss is 0 in every sample."""
    value = item.value
    if not value.is_floating_point() or item.axis != 0 or value.ndim not in (2, 3, 4) or item.group > 1:
        return []
    if _features(item) < MIN_FEATURES:
        return []
    axis = 1 if value.ndim >= 4 else value.ndim - 1
    total = torch.zeros(value.shape[axis], dtype=torch.float64)
    for prediction in subject.batch.predictions[:1]:
        leaf = value.clone().requires_grad_()
        made = subject.step.run({item.key: leaf}, until=prediction.key)[prediction.key]
        if not made.requires_grad:
            return []
        generator = torch.Generator().manual_seed(3)
        weights = torch.randn(made.shape, generator=generator, dtype=made.dtype)
        gradient = torch.autograd.grad((made * weights).sum(), leaf, allow_unused=True)[0]
        if gradient is None:
            return []
        total += gradient.double().abs().movedim(axis, 0).reshape(value.shape[axis], -1).sum(1)
    dead: list[int] = torch.nonzero((total == 0) & (_spread(value, axis) > 0)).flatten().tolist()
    if len(dead) == value.shape[axis] or (
        value.ndim == _SEQUENCE_NDIM and is_left_over(dead, value, subject.step.modules)
    ):
        return []
    return dead


def is_left_over(positions: Sequence[int], value: torch.Tensor, modules: Sequence[torch.nn.Module]) -> bool:
    """Return whether positions of a sequence are the last ones, which strided layers leave over.

    A layer leaves over fewer positions than its stride, which are as many inputs as the strides before it multiply to:
    all layers together fewer than the product of their strides.
    """
    length = value.shape[-1]
    if list(positions) != list(range(length - len(positions), length)):
        return False
    parts = (part for module in modules for part in module.modules() if isinstance(part, _STRIDED))
    strides = [part.stride if isinstance(part.stride, int) else int(part.stride[0]) for part in parts]
    return len(positions) < math.prod(strides)


def _spread(value: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the range of each feature: one that is constant is not called unused."""
    flat = value.double().movedim(axis, 0).reshape(value.shape[axis], -1)
    return flat.amax(1) - flat.amin(1)
