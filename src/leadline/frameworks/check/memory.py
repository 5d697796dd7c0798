"""The memory that a check may take."""

from __future__ import annotations

from typing import Final

COPIES: Final = 6
"""What the probes need at most, in copies of the parameters."""


def available_bytes() -> int:
    """Return the memory that processes can get without swapping."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        sizes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return sizes["MemAvailable"] << 10


def lack_of_memory(needed: int) -> str:
    """Return why there is not enough memory for a copy of the training, needed in bytes; "": there is."""
    available = available_bytes()
    if needed <= available:
        return ""
    return f"a copy of the training needs {needed >> 20:,} MiB of memory, and {available >> 20:,} MiB are free"
