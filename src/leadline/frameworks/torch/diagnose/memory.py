"""Whose the memory is: parameters, gradients, optimizer state and buffers by module; taken when it runs out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

CATEGORIES: Final = ("parameters", "gradients", "optimizer_state", "buffers")
_CPU_ERROR: Final = "can't allocate memory"
"""In the message of what PyTorch raises where the host has no memory left."""


def is_out_of_memory(error: object) -> bool:
    """Whether an error says that a device, or the host, has no memory left."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _CPU_ERROR in str(error)


def memory_by_owner(models: Iterable[tuple[str, torch.nn.Module]], optimizers: Iterable[Any]) -> dict[str, Any]:
    """What the training's lasting tensors take, by module and category.

    Units:
        Bytes of the tensors' own storage; what several modules share counts for the first. ``other_bytes`` is what
        else is allocated on the accelerators (activations, batches, temporaries); None where nobody counts it (the
        host).
    """
    taken: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(CATEGORIES, 0))
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
                    taken[path][category] += _bytes(tensor)
    rows: list[dict[str, Any]] = [
        {"module": path, "kind": kinds[path], **each, "bytes": sum(each.values())} for path, each in taken.items()
    ]
    totals = {category: sum(row[category] for row in rows) for category in CATEGORIES}
    devices = list(_devices())
    allocated = sum(each["allocated_bytes"] for each in devices)
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
            for each in (state.get(parameter) or {}).values():
                if isinstance(each, torch.Tensor):
                    yield "optimizer_state", each
    for buffer in module.buffers(recurse=False):
        yield "buffers", buffer


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _devices() -> Iterator[dict[str, Any]]:
    """What the accelerators say; asked without allocating anything."""
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
    """Told by CUDA's allocator when it has no memory left, also where the script catches the error.

    The observer cannot be taken off again; after ``stop`` it does nothing. Unproven on a GPU.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell: Callable[[str], None] | None = tell
        self._is_attached = False

    def start(self) -> None:
        """Begin to listen, where CUDA is used by now."""
        if self._is_attached or not torch.cuda.is_initialized():
            return
        self._is_attached = True
        torch._C._cuda_attach_out_of_memory_observer(self._observe)

    def stop(self) -> None:
        """Do nothing any more."""
        self._tell = None

    def _observe(self, device: int, wanted: int, allocated: int, free: int) -> None:
        if self._tell is not None:
            self._tell(f"cuda:{device} could not give {wanted:,} bytes: {allocated:,} allocated, {free:,} free")
