"""The probes that learn one batch on the copy."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from typing import Any, Final

import torch

from leadline.frameworks.check.learning import (
    FEW_RATES,
    GIVEN_INPUT,
    LEAST_STEPS,
    NO_LABELS,
    NOT_LEARNED,
    RATES,
    SEED,
    SHARE,
    TRAINED,
    UNUSED_LOSS,
    Learned,
    has_learned,
    judge_exchange,
    judge_learning,
    steps_within,
    too_few_steps,
    too_slow,
    worth_of_input,
)
from leadline.frameworks.check.outcome import Tested, failed, not_applicable
from leadline.frameworks.torch.check.batch import Batch, Input
from leadline.frameworks.torch.check.loss_calls import constant_loss, loss_calls, target_of
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.ranges import out_of_reach
from leadline.frameworks.torch.check.step_copy import StepCopy, Values, planned_rate
from leadline.frameworks.torch.check.step_tape import RecordedCall

_CLIPPED: Final = 0.98


def unlearnable_batch(subject: CheckedStep) -> Tested:
    """Train the copy on its one batch, with its own optimizer and with Adam at three rates."""
    step = subject.step
    first, gradients = step.recorded_loss, step.own_gradients
    if not gradients:
        return failed(UNUSED_LOSS, "look for detach(), no_grad() and frozen parameters")
    if not math.isfinite(first):
        return not_applicable("the loss is not finite")
    if (beyond := out_of_reach(step)) is not None:
        return beyond
    started = time.process_time()
    step.gradients()
    seconds = max(time.process_time() - started, 1e-4)
    rates = RATES if steps_within(step.seconds_left, seconds) >= LEAST_STEPS else FEW_RATES
    steps = steps_within(step.seconds_left, seconds, rates)
    if steps < LEAST_STEPS:
        return too_slow(seconds)
    curves = {f"Adam at {rate:g}": _learned(subject, _adam(step, rate), steps) for rate in rates}
    still = [
        step.name(p) for p, g in zip(step.parameters, gradients, strict=True) if g is None or not bool((g != 0).any())
    ]
    tested = judge_learning(
        Learned(
            first=first,
            curves=curves,
            own=_own_curve(subject, steps, gradients),
            optimizer=type(step.optimizer).__name__,
            rate=_rate(step),
            steps=steps,
            still=still,
            parameters=len(step.parameters),
            constant=constant_loss(loss_calls(step.calls), first),
            step=step.step_number,
        )
    )
    if rates != RATES and not has_learned(first, curves):
        subject.learned = None  # a few steps at one rate tell nothing about what the copy cannot learn
        return not_applicable(too_few_steps(steps))
    return tested


def ignored_input(subject: CheckedStep) -> Tested:
    """On the copy that has learned its batch, give each sample another input: the loss must rise."""
    step, batch = subject.step, subject.batch
    if subject.learned is None:
        return not_applicable(NOT_LEARNED)
    if (
        batch.size < 2
        or not batch.inputs
        or not any(_differ(item.rows()) for item in batch.labels_of_loss if item.axis is not None)
    ):
        return not_applicable(NO_LABELS)
    if any(_has_one_label(call, batch.size) for call in loss_calls(step.calls)):
        return not_applicable("a loss of the step has one label for all samples, and may well hide the others")
    model_keys = {key for call in batch.model_calls for key in call.consumed}
    others = {key for call in step.calls if not call.is_model for key in call.consumed}
    if any(item.key in others for item in batch.inputs) or len(model_keys) == 0:
        return not_applicable(GIVEN_INPUT)
    if batch.has_other_batch:
        return not_applicable("the step has batches of different sizes")
    with step.other_weights():
        weights, first, _ = subject.learned
        with torch.no_grad():
            for parameter, value in zip(step.parameters, weights, strict=True):
                parameter.copy_(value)
        learned = _loss(step)
        others, exchanged = _permuted(batch, 3), _exchanged(step, batch)
        # without dropout, by whose masks a copy may know the samples
        relabelled = learned + _evaluated(step, _chosen(batch.labels, others)) - _evaluated(step)
    is_trained = step.step_number >= TRAINED
    worth = worth_of_input(step.step_number, _loss(step), _exchanged(step, batch)) if is_trained else ""
    return judge_exchange(first, learned, exchanged, relabelled, worth)


def _loss(step: StepCopy) -> float:
    return float(step.run(seed=SEED, gradients=False).loss)


def _evaluated(step: StepCopy, values: Values | None = None) -> float:
    return float(step.run(values, seed=SEED, gradients=False, evaluates=True).loss)


def _exchanged(step: StepCopy, batch: Batch) -> float:
    """Return the larger one of two losses in which each sample has the input of another one."""
    given = [_chosen(batch.inputs, _others(batch, seed)) for seed in (1, 2)]
    return max(float(step.run(inputs, seed=SEED, gradients=False).loss) for inputs in given)


def _chosen(items: Sequence[Input], samples: torch.Tensor) -> Values:
    return {item.key: item.with_samples(samples) for item in items if item.axis is not None}


def _permuted(batch: Batch, seed: int) -> torch.Tensor:
    """Return for each sample another one, each once, ``(samples,)``."""
    order = torch.randperm(batch.size, generator=torch.Generator().manual_seed(seed))
    return order.roll(1)[order.argsort()]


def _learned(subject: CheckedStep, optimizer: Any, steps: int, max_norm: float = math.inf) -> list[float]:
    """Return the losses of steps on the one batch; keeps the best weights.

    Args:
        max_norm: To which gradients are clipped.
    """
    step = subject.step
    losses: list[float] = []
    kept_back = (1 - SHARE / 2) * max(step.seconds_left, 0.0)
    with step.other_weights():
        for seed in range(steps):
            loss = step.run(seed=seed).loss  # with the same dropout at each step, it would tell the samples apart
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]) or step.seconds_left < kept_back:
                break
            gradients = torch.autograd.grad(loss, step.parameters, allow_unused=True)
            if subject.learned is None or losses[-1] < subject.learned[2]:
                weights = [parameter.detach().clone() for parameter in step.parameters]
                subject.learned = [weights, step.recorded_loss, losses[-1]]
            for parameter, gradient in zip(step.parameters, gradients, strict=True):
                parameter.grad = gradient
            if math.isfinite(max_norm):
                torch.nn.utils.clip_grad_norm_(step.parameters, max_norm)
            optimizer.step()
        losses.append(float(step.run(gradients=False).loss))
    return losses


def _own_curve(subject: CheckedStep, steps: int, gradients: Sequence[torch.Tensor | None]) -> list[float]:
    """Return the losses of steps with the script's own optimizer, which is as before afterwards.

    Args:
        gradients: Those of the loss.
    """
    step = subject.step
    optimizer = step.optimizer
    state = copy.deepcopy(optimizer.state_dict())
    learned = subject.learned
    rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
    try:
        for group in optimizer.param_groups:
            if "lr" in group:
                group["lr"] = planned_rate(group)
        return _learned(subject, optimizer, steps, _clipped_to(step, gradients))
    except RuntimeError:
        return []  # an optimizer that cannot step without its closure
    finally:
        subject.learned = learned
        optimizer.load_state_dict(state)
        for group, rate in zip(optimizer.param_groups, rates, strict=False):
            group["lr"] = rate


def _clipped_to(step: StepCopy, gradients: Sequence[torch.Tensor | None]) -> float:
    """Return the norm to which the script has clipped the gradients of the step; infinite: it has not."""
    given = _norm([parameter.grad for parameter in step.parameters])
    return given if 0 < given < _CLIPPED * _norm(gradients) else math.inf


def _norm(gradients: Sequence[torch.Tensor | None]) -> float:
    return math.sqrt(sum(float((g.detach().double() ** 2).sum()) for g in gradients if g is not None))


def _adam(step: StepCopy, rate: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(step.parameters, lr=rate)


def _rate(step: StepCopy) -> float:
    return max((float(planned_rate(group)) for group in step.optimizer.param_groups if "lr" in group), default=0.0)


def _others(batch: Batch, seed: int) -> torch.Tensor:
    """Return for each sample another one, with other labels where there is one, ``(samples,)``."""
    rows = [item.rows().reshape(batch.size, -1) for item in batch.labels if item.axis is not None]
    order = torch.randperm(batch.size, generator=torch.Generator().manual_seed(seed))
    chosen = _permuted(batch, seed)
    for sample in range(batch.size):
        differ = torch.stack([(row != row[sample]).any(1) for row in rows]).any(0)[order]
        if bool(differ.any()):
            chosen[sample] = order[differ][sample % int(differ.sum())]
    return chosen


def _has_one_label(call: RecordedCall, samples: int) -> bool:
    """Return whether the labels of a loss are the same for all samples, as in a GAN."""
    target = target_of(call)
    return target is not None and target.dim() > 0 and len(target) == samples and not _differ(target)


def _differ(rows: torch.Tensor) -> bool:
    return bool((rows != rows[:1]).any())
