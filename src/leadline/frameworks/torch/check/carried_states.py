"""Recurrent states that are carried on although the next batch has nothing to do with the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_tape import tensors_in

_RANDOM: Final = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_ADVICE: Final = (
    "begin each batch without a state (None, or zeros), or read the sequences in order: then sample i of a batch must "
    "follow sample i of the batch before"
)


def draws_at_random(iterator: Any) -> bool:
    """Return whether the iterator of a DataLoader draws its samples at random."""
    batches = getattr(iterator, "_index_sampler", None)
    sampler = getattr(batches, "sampler", batches)
    return isinstance(sampler, _RANDOM) or (isinstance(sampler, DistributedSampler) and sampler.shuffle)


def last_state(output: Any) -> tuple[torch.Tensor, ...]:
    """Return copies, in the memory of the host, of the states that a recurrent layer has returned behind its output."""
    states = output[1] if isinstance(output, tuple) and len(output) == 2 else ()
    return tuple(state.detach().to("cpu", copy=True) for state in tensors_in(states))


def carried_state(subject: CheckedStep) -> Tested | None:
    """Return the failure if a layer begins with the state of the batch before, and batches are drawn at random."""
    tape = subject.step.tape
    if not tape.last_states or not any(id(tensor) in tape.tensors for tensor in tape.random_batches):
        return None
    carried: list[str] = []
    handles = [
        part.register_forward_pre_hook(_compared(carried, name or type(part).__name__, states), with_kwargs=True)
        for name, part in subject.step.named_parts()
        if (states := tape.last_states.get(id(part)))
    ]
    try:
        if handles:
            subject.step.run(gradients=False)
    finally:
        for handle in handles:
            handle.remove()
    if not carried:
        return None
    return failed(
        f"{carried[0]} begins with the state that the batch before has left, and the batches are drawn at random: each "
        "sequence goes on from the end of another one",
        _ADVICE,
        modules=carried,
    )


def _compared(carried: list[str], name: str, before: tuple[torch.Tensor, ...]) -> Callable[..., None]:
    def compare(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = tuple(tensors_in(kwargs.get("hx", args[1] if len(args) > 1 else None)))
        is_same = len(given) == len(before) and all(map(_is_same, given, before))
        if is_same and any(bool(state.any()) for state in given) and name not in carried:
            carried.append(name)

    return compare


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return bool(first.shape == second.shape and torch.equal(first.detach(), second))
