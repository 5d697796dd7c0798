"""What a training holds: its models, optimizers, and the kinds of modules whose activations can be captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from leadline.frameworks.torch.naming.module_registry import live_modules
from leadline.frameworks.torch.naming.parameter_names import find_roots, parameters_of, unwrap


def inventory(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Of the optimizers that stepped and the models that they update, plain values.

    Returns:
        ``models``: name, wrapper, parameters and trainable (elements), tensors, dtypes, devices; ``optimizers``:
        name, parameters, groups, variables (what it keeps for a parameter); ``module_kinds``: every kind of module
        that is alive, the models' or not.
    """
    outermost = live_modules()
    roots = {id(root): root for each in optimizers for root in find_roots(parameters_of(each), outermost)}
    kinds = sorted({type(each).__name__.lower() for root in outermost for each in modules_of(root)})
    outermost.clear()
    return {
        "models": [_model(root) for root in roots.values()],
        "optimizers": [_optimizer(each) for each in optimizers],
        "module_kinds": kinds,
    }


def _model(root: torch.nn.Module) -> dict[str, Any]:
    inner = unwrap(root)
    parameters = list(inner.parameters())
    return {
        "name": str(getattr(inner, "original_name", type(inner).__name__)),  # a scripted one was something else
        "wrapper": type(root).__name__ if inner is not root else None,
        "parameters": sum(each.numel() for each in parameters),
        "trainable": sum(each.numel() for each in parameters if each.requires_grad),
        "tensors": len(parameters),
        "dtypes": sorted({str(each.dtype).removeprefix("torch.") for each in parameters}),
        "devices": sorted({str(each.device) for each in parameters}),
    }


def _optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    count = sum(each.numel() for each in parameters_of(optimizer))
    kept = next((each for each in optimizer.state.values() if isinstance(each, dict)), {})
    return {
        "name": type(optimizer).__name__,
        "parameters": count,
        "groups": len(optimizer.param_groups),
        "variables": sorted(str(name) for name in kept),
    }


def modules_of(root: torch.nn.Module) -> list[torch.nn.Module]:
    """A module and all within it; of one that is not initialised yet itself alone."""
    try:
        return list(root.modules())
    except (AttributeError, RuntimeError):
        return [root]
