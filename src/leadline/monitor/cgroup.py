"""CPU and memory limits of the current control group, as set by containers and batch systems."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from leadline.monitor.processes import PROC

CGROUPS: Final = "/sys/fs/cgroup"
_UNLIMITED_BYTES: Final = 1 << 60
"""cgroup v1 writes a number near 2**63 for "no limit"."""


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """A limit on CPU time."""

    cores: float
    """CPU seconds per second."""
    used_seconds: Callable[[], float | None]
    """Returns the CPU time used so far by all processes under the limit; None if it cannot be read."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit on memory."""

    limit_bytes: int
    used_bytes: Callable[[], int | None]
    """Returns the memory used by all processes under the limit, without reclaimable file pages; None if unreadable."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The strictest limits of the groups of this process; None for no limit."""

    cpu: CpuLimit | None = None
    memory: MemoryLimit | None = None


def read_limits(proc: str = PROC, root: str = CGROUPS) -> CgroupLimits:
    """Return the limits of this process, for cgroup v1 or v2.

    Source:
        ``/proc/self/cgroup``; ``cpu.max``, ``memory.max``, and for v1 ``cpu.cfs_quota_us``,
        ``memory.limit_in_bytes``, of the group and all its parents.
    """
    groups = _own_groups(proc)
    cpu = [_cpu(folder, root, groups) for folder in _folders(root, groups, "cpu")]
    memory = [_memory(folder) for folder in _folders(root, groups, "memory")]
    return CgroupLimits(
        min((limit for limit in cpu if limit is not None), key=lambda limit: limit.cores, default=None),
        min((limit for limit in memory if limit is not None), key=lambda limit: limit.limit_bytes, default=None),
    )


def _own_groups(proc: str) -> dict[str, str]:
    """Return the path of the own group by controller; ``""`` is the key of v2, which has one path for all."""
    groups: dict[str, str] = {}
    for line in (_text(f"{proc}/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _folders(root: str, groups: dict[str, str], controller: str) -> Iterator[str]:
    """Yield the folders of the own group and its parents; in a container the own path may be missing, not the root."""
    is_v2 = controller not in groups
    base = root if is_v2 else os.path.join(root, controller)
    path = groups.get("" if is_v2 else controller, "/")
    while True:
        folder = os.path.normpath(base + path)
        if os.path.isdir(folder):
            yield folder
        if path in ("/", ""):
            return
        path = os.path.dirname(path)


def _cpu(folder: str, root: str, groups: dict[str, str]) -> CpuLimit | None:
    limit = _text(f"{folder}/cpu.max")
    if limit is not None:
        quota, period = limit.split()
        return None if quota == "max" else CpuLimit(int(quota) / int(period), lambda: _usage_seconds(folder))
    quota_us, period_us = _number(f"{folder}/cpu.cfs_quota_us"), _number(f"{folder}/cpu.cfs_period_us")
    if quota_us is None or period_us is None or quota_us <= 0:
        return None
    account = next(_folders(root, groups, "cpuacct"), folder)
    return CpuLimit(quota_us / period_us, lambda: _account_seconds(account))


def _usage_seconds(folder: str) -> float | None:
    microseconds = _field(f"{folder}/cpu.stat", "usage_usec")
    return None if microseconds is None else microseconds / 1e6


def _account_seconds(folder: str) -> float | None:
    nanoseconds = _number(f"{folder}/cpuacct.usage")
    return None if nanoseconds is None else nanoseconds / 1e9


def _memory(folder: str) -> MemoryLimit | None:
    for limit_file, used_file, inactive in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _number(f"{folder}/{limit_file}")
        if limit is not None and limit < _UNLIMITED_BYTES:
            return MemoryLimit(limit, partial(_used_bytes, folder, used_file, inactive))
    return None


def _used_bytes(folder: str, used_file: str, inactive: str) -> int | None:
    used = _number(f"{folder}/{used_file}")
    return None if used is None else max(0, used - (_field(f"{folder}/memory.stat", inactive) or 0))


def _field(path: str, name: str) -> int | None:
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return None


def _number(path: str) -> int | None:
    """Return the number in a file; None if it contains ``max`` or does not exist."""
    text = _text(path)
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def _text(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None
