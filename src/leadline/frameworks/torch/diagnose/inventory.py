"""Inventory of a training: its models, optimizers, and the kinds of modules whose activations can be captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from leadline.frameworks.torch.naming.module_registry import live_modules
from leadline.frameworks.torch.naming.parameter_names import find_roots, parameters_of, unwrap


def inventory(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Describe the optimizers that stepped and the models that they update, as plain values.

    Returns:
        ``models``: name, wrapper, parameters and trainable (elements), tensors, dtypes, devices; ``optimizers``:
        name, parameters, groups, variables (those kept per parameter); ``module_kinds``: every kind of live module,
        including modules outside the models.
    """
    outermost = live_modules()
    roots = {id(root): root for optimizer in optimizers for root in find_roots(parameters_of(optimizer), outermost)}
    kinds = sorted({type(module).__name__.lower() for root in outermost for module in modules_of(root)})
    outermost.clear()
    return {
        "models": [_model(root) for root in roots.values()],
        "optimizers": [_optimizer(optimizer) for optimizer in optimizers],
        "module_kinds": kinds,
    }


def _model(root: torch.nn.Module) -> dict[str, Any]:
    inner = unwrap(root)
    parameters = list(inner.parameters())
    return {
        "name": str(getattr(inner, "original_name", type(inner).__name__)),  # scripted modules have an original name
        "wrapper": type(root).__name__ if inner is not root else None,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "trainable": sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        "tensors": len(parameters),
        "dtypes": sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters}),
        "devices": sorted({str(parameter.device) for parameter in parameters}),
    }


def _optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    count = sum(parameter.numel() for parameter in parameters_of(optimizer))
    variables = next((state for state in optimizer.state.values() if isinstance(state, dict)), {})
    return {
        "name": type(optimizer).__name__,
        "parameters": count,
        "groups": len(optimizer.param_groups),
        "variables": sorted(str(name) for name in variables),
    }


def modules_of(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Return a module and all its descendants; only the module itself if it is not initialized yet."""
    try:
        return list(root.modules())
    except (AttributeError, RuntimeError):
        return [root]
