"""Low-rank adapters that cannot learn, as the first step of an optimizer shows: frozen, without one, or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import torch

from leadline.frameworks.torch.naming.model_names import live_optimizers, parameters_of
from leadline.records.names import ADAPTERS, CUT_OFF_ADAPTERS, FROZEN_ADAPTERS, UNMANAGED_ADAPTERS

_ADAPTER: Final = re.compile(r"(^|[._])lora_", re.IGNORECASE)
"""In the names that PEFT, torchtune and scripts in their manner give to the weights of adapters."""


def adapter_checks(
    optimizer: torch.optim.Optimizer, roots: Iterable[torch.nn.Module], others: Iterable[torch.optim.Optimizer]
) -> dict[str, float]:
    """Return how many weights of adapters there are, and how many cannot learn; empty: there are none.

    Adapters may be frozen while the layers that they adapt are trained, as in a pretraining of the model that has them.

    Called before the first step of an optimizer, when the gradients of a whole backward pass are known.

    Args:
        roots: The models that the optimizer trains.
        others: Other optimizers that have stepped.
    """
    roots = list(roots)
    adapters = [parameter for root in roots for name, parameter in root.named_parameters() if _ADAPTER.search(name)]
    if not adapters:
        return {}
    held = _held([optimizer])
    trainable = [parameter for parameter in adapters if parameter.requires_grad]
    missing = [parameter for parameter in trainable if id(parameter) not in held]
    if missing:
        elsewhere = _held(others)
        missing = [parameter for parameter in missing if id(parameter) not in elsewhere]
    if missing:
        anywhere = _held(live_optimizers())
        missing = [parameter for parameter in missing if id(parameter) not in anywhere]
    has_gradients = any(parameter.grad is not None for parameter in parameters_of(optimizer))
    own = [parameter for parameter in trainable if id(parameter) in held]
    cut_off = [parameter for parameter in own if parameter.grad is None] if has_gradients else []
    counts = {
        ADAPTERS: adapters,
        FROZEN_ADAPTERS: [parameter for root in roots for parameter in _frozen(root)],
        UNMANAGED_ADAPTERS: missing,
        CUT_OFF_ADAPTERS: cut_off,
    }
    return {name: float(len(parameters)) for name, parameters in counts.items()}


def _frozen(root: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Return the weights of adapters that require no gradient, of layers that are not trained either."""
    parameters = dict(root.named_parameters())
    adapters = {name: match.start() for name in parameters if (match := _ADAPTER.search(name))}
    trained = [name for name, parameter in parameters.items() if parameter.requires_grad and name not in adapters]
    return [
        parameters[name]
        for name, end in adapters.items()
        if not parameters[name].requires_grad and not any(other.startswith(name[:end]) for other in trained)
    ]


def _held(optimizers: Iterable[Any]) -> set[int]:
    return {id(parameter) for optimizer in optimizers for parameter in parameters_of(optimizer)}
