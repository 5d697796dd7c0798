"""The memory of a training by owner, as it is recorded when an accelerator is out of memory, and on request."""

from __future__ import annotations

from typing import TypedDict


class ModuleMemory(TypedDict):
    """The bytes of a module's own tensors, by category and in total."""

    module: str
    kind: str
    parameters: int
    gradients: int
    optimizer_state: int
    buffers: int
    bytes: int


class DeviceMemory(TypedDict):
    """The memory of an accelerator, as its allocator counts it."""

    device: str
    allocated_bytes: int
    reserved_bytes: int
    free_bytes: int
    total_bytes: int


class MemoryByOwner(TypedDict):
    """The bytes of a training's persistent tensors, by category and by module."""

    categories: dict[str, int]
    other_bytes: int | None
    """All other memory that is allocated on the accelerators; None on the host, where it is not counted."""
    modules: list[ModuleMemory]
    """The largest first."""
    devices: list[DeviceMemory]


class MemoryAtError(MemoryByOwner):
    """The memory at an out-of-memory error: ``profiles/<worker>/out-of-memory-<n>.json``."""

    step: int
    time_ns: int
    worker: str
    error: str
