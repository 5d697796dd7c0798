"""Checks of the training process: its memory, and whether its models are replicas of those of other processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import torch
from torch.nn.parallel import DistributedDataParallel

UNKNOWN: Final = 0
"""Several processes train, and nothing tells whether they hold the same parameters."""
SHARDED: Final = 1
"""Each process holds a part of the parameters."""


def device_memory() -> dict[str, float]:
    """Return the bytes allocated on the device of this process by the name of the check; empty without a device."""
    return {"process/device_bytes": float(torch.cuda.memory_allocated())} if torch.cuda.is_initialized() else {}


def count_replicas(models: Iterable[torch.nn.Module], parameters: Iterable[torch.Tensor]) -> int | None:
    """Return how many processes hold the same parameters as this one.

    Args:
        models: The outermost modules of an optimizer.
        parameters: The parameters of the optimizer.

    Returns:
        The number of processes if ``DistributedDataParallel`` wraps all models, ``SHARDED`` under FSDP and with other
        sharded parameters, else ``UNKNOWN``; None in a single process.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return None
    models = list(models)
    flat = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", None)
    is_flat = flat is not None and any(isinstance(module, flat) for model in models for module in model.modules())
    if is_flat or any(_is_sharded(parameter) for parameter in parameters):
        return SHARDED
    processes = distributed.get_world_size()
    return processes if models and all(_is_replicated(model, processes) for model in models) else UNKNOWN


def is_wrapper_never_called(models: Iterable[torch.nn.Module]) -> bool:
    """Return whether a ``DistributedDataParallel`` among the models has never begun a forward pass with gradients.

    It does not note that it has within a compiled function.
    """
    wrappers = [model for model in models if isinstance(model, DistributedDataParallel)]
    return any(getattr(wrapper, "_lazy_init_ran", True) is False for wrapper in wrappers)


def _is_replicated(model: torch.nn.Module, processes: int) -> bool:
    """Return whether a wrapper keeps all parameters of a model equal on all processes."""
    if not isinstance(model, DistributedDataParallel) or model.parameters_to_ignore:
        return False
    return bool(model.process_group.size() == processes)


def _is_sharded(parameter: torch.Tensor) -> bool:
    """Return whether a parameter is a ``DTensor`` of which this process holds a part."""
    return any(placement.is_shard() for placement in getattr(parameter, "placements", ()))
