"""The modes of models, and what their forward passes may change, on the copy of a training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from leadline.frameworks.torch.check.step_tape import PartState, RecordedCall


@contextmanager
def modes(modules: Sequence[torch.nn.Module], *, evaluates: bool) -> Iterator[None]:
    """Put models into evaluation mode, and back."""
    before = [(part, part.training) for module in modules for part in module.modules()]
    try:
        if evaluates:
            for module in modules:
                module.eval()
        yield
    finally:
        for part, is_training in before:
            part.training = is_training


def set_modes(call: RecordedCall) -> None:
    """Put the parts of a model into the modes in which it was called."""
    for part, is_training in zip(call.function.modules(), call.modes, strict=False):  # type: ignore[attr-defined]
        part.training = is_training


class ModelState:
    """What a forward pass may change of models beside their parameters: buffers, and attributes."""

    def __init__(self, modules: Sequence[torch.nn.Module], before: Mapping[int, PartState]) -> None:
        """
        Args:
            before: The state before the step, by the identity of each part.
        """
        self._parts = [part for module in modules for part in module.modules()]
        self._states = [before.get(id(part)) or PartState.of(part) for part in self._parts]
        self._put_back()

    def _put_back(self) -> None:
        for part, state in zip(self._parts, self._states, strict=True):
            kept = {name: part.__dict__[name] for name in ("_parameters", "_modules", "_buffers", "training")}
            part.__dict__.clear()
            part.__dict__.update(state.attributes | kept)
            part._buffers.update(state.buffers)

    @contextmanager
    def replaced(self, part: torch.nn.Module, name: str, value: Any) -> Iterator[None]:
        """Restore another value of an attribute or buffer within this block."""
        state = self._states[next(at for at, known in enumerate(self._parts) if known is part)]
        place: dict[str, Any] = state.buffers if name in state.buffers else state.attributes
        before, place[name] = place[name], value
        self._put_back()
        try:
            yield
        finally:
            place[name] = before
            self._put_back()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Let forward passes change copies of the tensors, and put everything back afterwards."""
        for part, state in zip(self._parts, self._states, strict=True):
            part._buffers.update({name: buffer.clone() for name, buffer in state.buffers.items()})
            for name, value in state.attributes.items():
                if isinstance(value, torch.Tensor) and not value.requires_grad:
                    part.__dict__[name] = value.clone()
        try:
            yield
        finally:
            self._put_back()
