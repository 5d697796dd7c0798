"""Memory by owner (parameters, gradients, optimizer state and buffers by module), and out-of-memory detection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from leadline.records.memory_by_owner import DeviceMemory, MemoryByOwner, ModuleMemory

CATEGORIES: Final = ("parameters", "gradients", "optimizer_state", "buffers")
_CPU_ERROR: Final = "can't allocate memory"
"""Part of the message of PyTorch's exception for exhausted host memory."""


def is_out_of_memory(error: object) -> bool:
    """Whether an exception reports that a device or the host is out of memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _CPU_ERROR in str(error)


def memory_by_owner(models: Iterable[tuple[str, torch.nn.Module]], optimizers: Iterable[Any]) -> MemoryByOwner:
    """Return the memory held by the training's persistent tensors, by module and category.

    Units:
        Bytes of the tensors' storage; a tensor shared by several modules counts for the first. ``other_bytes`` is all
        other memory allocated on the accelerators (activations, batches, temporaries); None on the host, where it is
        not counted.
    """
    sizes: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(CATEGORIES, 0))
    kinds: dict[str, str] = {}
    seen: set[int] = set()
    states = [optimizer.state for optimizer in optimizers]
    for prefix, model in models:
        for name, module in model.named_modules():
            path = f"{prefix}{name}" or type(model).__name__
            kinds[path] = type(module).__name__
            for category, tensor in _owned(module, states):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    sizes[path][category] += _bytes(tensor)
    rows: list[ModuleMemory] = [
        {
            "module": path,
            "kind": kinds[path],
            "parameters": owned["parameters"],
            "gradients": owned["gradients"],
            "optimizer_state": owned["optimizer_state"],
            "buffers": owned["buffers"],
            "bytes": sum(owned.values()),
        }
        for path, owned in sizes.items()
    ]
    totals = {category: sum(owned[category] for owned in sizes.values()) for category in CATEGORIES}
    devices = list(_devices())
    allocated = sum(device["allocated_bytes"] for device in devices)
    return {
        "categories": totals,
        "other_bytes": max(0, allocated - sum(totals.values())) if devices else None,
        "modules": sorted(rows, key=lambda row: -row["bytes"]),
        "devices": devices,
    }


def _owned(module: torch.nn.Module, states: Iterable[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for parameter in module.parameters(recurse=False):
        yield "parameters", parameter
        if parameter.grad is not None:
            yield "gradients", parameter.grad
        for state in states:
            for variable in (state.get(parameter) or {}).values():
                if isinstance(variable, torch.Tensor):
                    yield "optimizer_state", variable
    for buffer in module.buffers(recurse=False):
        yield "buffers", buffer


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _devices() -> Iterator[DeviceMemory]:
    """Yield the memory statistics of the accelerators, without allocating anything."""
    if not torch.cuda.is_initialized():
        return
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        yield {
            "device": f"cuda:{index}",
            "allocated_bytes": torch.cuda.memory_allocated(index),
            "reserved_bytes": torch.cuda.memory_reserved(index),
            "free_bytes": free,
            "total_bytes": total,
        }


class OutOfMemoryWatch:
    """Reports when CUDA's allocator runs out of memory, even if the script catches the error.

    The observer cannot be detached; after ``stop`` it does nothing. Not tested on a GPU.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report: Callable[[str], None] | None = report
        self._is_attached = False

    def start(self) -> None:
        """Attach the observer, if CUDA is in use."""
        if self._is_attached or not torch.cuda.is_initialized():
            return
        self._is_attached = True
        torch._C._cuda_attach_out_of_memory_observer(self._observe)

    def stop(self) -> None:
        """Ignore all further events."""
        self._report = None

    def _observe(self, device: int, requested: int, allocated: int, free: int) -> None:
        if self._report is not None:
            self._report(
                f"cuda:{device} could not allocate {requested:,} bytes: {allocated:,} allocated, {free:,} free"
            )
