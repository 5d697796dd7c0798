"""Denoisers that are asked for the noisy input that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.loss_calls import target_of
from leadline.frameworks.torch.check.step_copy import StepCopy, function_name
from leadline.frameworks.torch.check.step_tape import RecordedCall, StepTape, draws_random_numbers


def noisy_target(step: StepCopy, losses: Sequence[RecordedCall]) -> Tested | None:
    """Return the failure if the target of a loss is the noisy input of a model that is also given its level of noise.

    An autoencoder may well return what it is given, with the noise that makes it continuous, too. But a model that is
    given what was drawn to make its input, beside that input, is to remove the noise.

    Args:
        losses: The standard losses of the step.
    """
    tape = step.tape
    for loss in losses:
        target = target_of(loss)
        if target is None or target.requires_grad:
            continue
        for model, given in _given_to_models(tape):
            if _is_same(given, target) and _is_noised(tape, model, given):
                return failed(
                    f"the target of {function_name(loss)} is the input of {function_name(model)} itself, with the "
                    "noise that was added to it: to return its input is all that it learns",
                    "compare the prediction with the noise, or with the samples before noise was added",
                )
    return None


def _given_to_models(tape: StepTape) -> Iterator[tuple[RecordedCall, torch.Tensor]]:
    for call in tape.calls:
        if call.is_model:
            yield from ((call, tape.tensors[key]) for key in dict.fromkeys(call.consumed))


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first is second:
        return True
    return bool(first.is_floating_point() and first.shape == second.shape and torch.equal(first, second))


def _is_noised(tape: StepTape, model: RecordedCall, given: torch.Tensor) -> bool:
    """Whether an input was made of noise of its shape, and of what was drawn for another input of the same call.

    Noise is on both sides of 0: by numbers from 0 to 1 a script chooses what it flips or drops.
    """
    if given.ndim < 2:
        return False
    drawn = _drawn_for(tape, id(given))
    noise = [key for key in drawn if tape.tensors[key].shape == given.shape and bool((tape.tensors[key] < 0).any())]
    levels = {key for key in drawn if tape.tensors[key].numel() in (1, given.shape[0])}
    others = (key for key in set(model.consumed) if key != id(given))
    return bool(noise) and any(levels & _drawn_for(tape, key) for key in others)


def _drawn_for(tape: StepTape, made: int) -> set[int]:
    """Return the tensors of random numbers that a tensor was made of, without models between."""
    needed, drawn = {made}, set[int]()
    for call in reversed(tape.calls):
        reached = needed & set(call.produced)
        if not reached or call.is_model:
            continue
        if draws_random_numbers(call.function):
            drawn |= reached
        needed |= set(call.consumed)
    return drawn
