"""Training or evaluation mode of a model's dropout and batch normalization modules during training."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd


class ModuleModes:
    """Counts a model's consecutive steps in eval mode, and its consecutive calls without gradients in training mode.

    A step costs a search for the first such module in training mode; in a healthy training that is the first module.
    """

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        self._modules = [weakref.ref(module) for root in roots for module in root.modules() if has_modes(module)]
        self.steps_in_eval_mode = 0
        self.calls_in_train_mode: int | None = None
        """None: no call without gradients was observed."""

    def __bool__(self) -> bool:
        return bool(self._modules)

    def before_step(self) -> None:
        """Count a step of the model's optimizer."""
        self.steps_in_eval_mode = 0 if self._is_training() else self.steps_in_eval_mode + 1

    def on_call_without_gradients(self) -> None:
        """Count a call of the model without gradients."""
        self.calls_in_train_mode = (self.calls_in_train_mode or 0) + 1 if self._is_training() else 0

    def _is_training(self) -> bool:
        """Whether any of the modules is in training mode."""
        return any(module.training for module in self._alive())

    def _alive(self) -> Iterator[torch.nn.Module]:
        for reference in self._modules:
            module = reference()
            if module is not None:
                yield module


def has_modes(module: torch.nn.Module) -> bool:
    """Whether a module behaves differently in training and in evaluation."""
    if isinstance(module, _DropoutNd):
        return bool(module.p > 0)
    if isinstance(module, _BatchNorm):
        return bool(module.track_running_stats)
    dropout: Any = getattr(module, "dropout", None)  # of recurrent and attention modules
    return isinstance(dropout, float) and dropout > 0
