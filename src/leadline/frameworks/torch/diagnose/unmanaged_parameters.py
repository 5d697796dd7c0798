"""Parameters that receive gradients but belong to no optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Final

import torch

from leadline.frameworks.torch.naming.module_registry import live_optimizers
from leadline.frameworks.torch.naming.parameter_names import parameters_of

_MAX_REPORTED: Final = 100


class UnmanagedParameters:
    """Parameters of a model that are not in the optimizer that updates the model.

    Other optimizers that may hold them are searched among those that have stepped; only if that fails, among all live
    optimizers, once per parameter: such a search takes 0.1 s.
    """

    def __init__(self, named: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        """
        Args:
            named: The model's parameters by name.
        """
        managed = {id(parameter) for parameter in parameters_of(optimizer)}
        self._candidates = {
            name: weakref.ref(parameter) for name, parameter in named.items() if id(parameter) not in managed
        }
        self._held: set[str] = set()
        self._reported: set[str] = set()

    def find(self, stepping: Iterable[torch.optim.Optimizer]) -> dict[str, bool]:
        """Return, for parameters that have a gradient or were reported before, whether no optimizer holds them.

        Args:
            stepping: The optimizers that have stepped so far.
        """
        with_gradient = {
            name: parameter
            for name, reference in self._candidates.items()
            if (parameter := _with_gradient(reference())) is not None
        }
        if not with_gradient and not self._reported:
            return {}
        held = {id(parameter) for optimizer in stepping for parameter in parameters_of(optimizer)}
        lost = {
            name for name, parameter in with_gradient.items() if id(parameter) not in held and name not in self._held
        }
        new = lost - self._reported
        if new:
            alive = {id(parameter) for optimizer in live_optimizers() for parameter in parameters_of(optimizer)}
            self._held |= {name for name in new if id(with_gradient[name]) in alive}
            lost -= self._held
        self._reported |= set(sorted(lost)[:_MAX_REPORTED])
        return {name: name in lost for name in sorted(self._reported)}


def _with_gradient(parameter: torch.Tensor | None) -> torch.Tensor | None:
    """Return the parameter if it requires a gradient and has one."""
    if parameter is None or not parameter.requires_grad or parameter.grad is None:
        return None
    return parameter
