"""In which mode a model's dropout and batch normalization modules are while it trains."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd


class ModuleModes:
    """Counts a model's steps in a row in evaluation mode, and its calls without gradients in a row in training mode.

    A step costs a look at the first such module that is in training mode; in a healthy training that is the first.
    """

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        self._modules = [weakref.ref(each) for root in roots for each in root.modules() if has_modes(each)]
        self.steps_in_eval_mode = 0
        self.calls_in_train_mode: int | None = None
        """None: no call without gradients was seen."""

    def __bool__(self) -> bool:
        return bool(self._modules)

    def at_step(self) -> None:
        """The model is about to be updated."""
        self.steps_in_eval_mode = 0 if self._is_training() else self.steps_in_eval_mode + 1

    def at_call_without_gradients(self) -> None:
        """The model is called without gradients."""
        self.calls_in_train_mode = (self.calls_in_train_mode or 0) + 1 if self._is_training() else 0

    def _is_training(self) -> bool:
        """Whether one of them is in training mode."""
        return any(each.training for each in self._alive())

    def _alive(self) -> Iterator[torch.nn.Module]:
        for reference in self._modules:
            module = reference()
            if module is not None:
                yield module


def has_modes(module: torch.nn.Module) -> bool:
    """Whether a module does one thing in training and another in evaluation."""
    if isinstance(module, _DropoutNd):
        return bool(module.p > 0)
    if isinstance(module, _BatchNorm):
        return bool(module.track_running_stats)
    dropout: Any = getattr(module, "dropout", None)  # of recurrent and attention modules
    return isinstance(dropout, float) and dropout > 0
