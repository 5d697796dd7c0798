"""Parameters that their optimizer leaves as they are, because the learning rate of their group is 0."""

from __future__ import annotations

from typing import Any

import torch

from leadline.frameworks.frozen_parameters import FrozenParameters
from leadline.frameworks.torch.naming.model_names import ParameterNames, parameters_of


class FrozenGroups:
    """Finds the groups of an optimizer with a learning rate of 0, beside others with one, as in gradual unfreezing."""

    def __init__(self) -> None:
        self._frozen = FrozenParameters()
        self._names: dict[int, str] = {}
        """The names of the optimizer's parameters by id; empty: no group was ever at rest."""

    def find(self, optimizer: torch.optim.Optimizer, names: ParameterNames) -> dict[str, float]:
        """Return the checks of the parameters that are frozen, or were."""
        at_rest = [group for group in optimizer.param_groups if _is_zero(group.get("lr"))]
        if not at_rest and not self._names:
            return {}
        parameters = parameters_of(optimizer)
        if not all(id(parameter) in self._names for parameter in parameters):
            self._names = {id(named.parameter): named.name for named in names.name(optimizer)[1]}
        frozen = {self._names[id(parameter)] for group in at_rest for parameter in group["params"]}
        return self._frozen.checks(frozen, {self._names[id(parameter)] for parameter in parameters} - frozen)


def _is_zero(rate: Any) -> bool:
    """Return whether a learning rate is 0; one on an accelerator is not read, because that would wait for it."""
    if isinstance(rate, torch.Tensor):
        return rate.device.type == "cpu" and rate.numel() == 1 and not rate.item()
    return isinstance(rate, (int, float)) and rate == 0
