"""The tensors of a training on an accelerator, in the memory of the host: a forked copy cannot use the accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from leadline.frameworks.torch.check.step_tape import StepTape, tensors_in

_OF_ACCELERATORS: Final = ("capturable", "fused")
"""Settings of optimizers that hold on an accelerator only."""


def is_elsewhere(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on an accelerator."""
    return bool(tensor.device.type != "cpu")


class HostCopy:
    """Copies of the tensors of a step that are on an accelerator.

    They are made in the training, which only reads its tensors for that, and put in their place in the copy. The
    device's memory that they had there is never freed: that would be work for a device that the copy does not have.
    """

    def __init__(self, tape: StepTape, optimizer: Any, chosen: Callable[[torch.Tensor], bool] = is_elsewhere) -> None:
        """
        Args:
            chosen: Returns whether a tensor is to be copied.
        """
        self._optimizer = optimizer
        found = {id(tensor): tensor for tensor in _tensors_of(tape, optimizer) if chosen(tensor)}
        self._copies = [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in found.values()]
        self._kept: list[torch.Tensor] = []

    def __bool__(self) -> bool:
        return bool(self._copies)

    def take_place(self) -> None:
        """Put the copies in the place of the tensors; called in the forked copy."""
        for tensor, copied in self._copies:
            self._kept.append(tensor.detach())
            tensor.data = copied
        for group in self._optimizer.param_groups if self._copies else ():
            group.update({name: False for name in _OF_ACCELERATORS if group.get(name)})


def needed_bytes(tape: StepTape, optimizer: Any) -> int:
    """Return the memory that the copies of the tensors on an accelerator take."""
    found = {id(tensor): tensor for tensor in _tensors_of(tape, optimizer) if is_elsewhere(tensor)}
    return sum(tensor.numel() * tensor.element_size() for tensor in found.values())


def _tensors_of(tape: StepTape, optimizer: Any) -> Iterator[torch.Tensor]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    models = [call.function for call in tape.calls if isinstance(call.function, torch.nn.Module)]
    parameters += [parameter for model in dict.fromkeys(models) for parameter in model.parameters()]
    for parameter in parameters:
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    for model in dict.fromkeys(models):
        yield from model.buffers()
    for state in optimizer.state.values():
        yield from tensors_in(state)
    for part in tape.states.values():
        yield from tensors_in((part.attributes, part.buffers), depth=2)
    yield from (*tape.tensors.values(), *tape.inputs.values(), *tape.left_over.values())
