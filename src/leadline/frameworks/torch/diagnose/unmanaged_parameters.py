"""Parameters that receive gradients though no optimizer holds them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Final

import torch

from leadline.frameworks.torch.naming.module_registry import live_optimizers
from leadline.frameworks.torch.naming.parameter_names import parameters_of

_MOST_TOLD: Final = 100


class UnmanagedParameters:
    """The parameters of a model that an optimizer of it does not hold.

    That another optimizer holds them is found out among those that have stepped; only where that fails, among all that
    are alive, once for each parameter: such a look takes 0.1 s.
    """

    def __init__(self, named: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        """
        Args:
            named: The model's parameters by name.
        """
        own = {id(each) for each in parameters_of(optimizer)}
        self._candidates = {name: weakref.ref(each) for name, each in named.items() if id(each) not in own}
        self._held: set[str] = set()
        self._told: set[str] = set()

    def find(self, stepping: Iterable[torch.optim.Optimizer]) -> dict[str, bool]:
        """Of parameters that hold a gradient, or were told before: whether no optimizer holds them.

        Args:
            stepping: The optimizers that have stepped so far.
        """
        with_gradient = {
            name: found for name, each in self._candidates.items() if (found := _pushed(each())) is not None
        }
        if not with_gradient and not self._told:
            return {}
        held = {id(each) for optimizer in stepping for each in parameters_of(optimizer)}
        lost = {name for name, each in with_gradient.items() if id(each) not in held and name not in self._held}
        new = lost - self._told
        if new:
            alive = {id(each) for optimizer in live_optimizers() for each in parameters_of(optimizer)}
            self._held |= {name for name in new if id(with_gradient[name]) in alive}
            lost -= self._held
        self._told |= set(sorted(lost)[:_MOST_TOLD])
        return {name: name in lost for name in sorted(self._told)}


def _pushed(parameter: torch.Tensor | None) -> torch.Tensor | None:
    """A parameter that requires a gradient and has one."""
    if parameter is None or not parameter.requires_grad or parameter.grad is None:
        return None
    return parameter
