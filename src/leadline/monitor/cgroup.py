"""What a container, or a batch system, lets the job have of the machine: the limits of our control group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from leadline.monitor.processes import PROC

CGROUPS: Final = "/sys/fs/cgroup"
_UNLIMITED_BYTES: Final = 1 << 60
"""The first version writes a number near 2**63 for "no limit"."""


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """A bound on processor time."""

    cores: float
    """Seconds of processor time a second."""
    used_seconds: Callable[[], float | None]
    """What all that share the bound have taken so far; None: that cannot be read."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A bound on memory."""

    limit_bytes: int
    used_bytes: Callable[[], int | None]
    """What all that share the bound hold, without file pages that the kernel may drop; None: that cannot be read."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The tightest bounds of the groups that this process is in; None: there is none."""

    cpu: CpuLimit | None = None
    memory: MemoryLimit | None = None


def read_limits(proc: str = PROC, root: str = CGROUPS) -> CgroupLimits:
    """The limits that hold for this process, of either version of control groups.

    Source:
        ``/proc/self/cgroup``; ``cpu.max``, ``memory.max`` and their elders ``cpu.cfs_quota_us``,
        ``memory.limit_in_bytes``, of the group and all above it.
    """
    own = _own_groups(proc)
    cpu = [_cpu(folder, root, own) for folder in _folders(root, own, "cpu")]
    memory = [_memory(folder) for folder in _folders(root, own, "memory")]
    return CgroupLimits(
        min((each for each in cpu if each is not None), key=lambda each: each.cores, default=None),
        min((each for each in memory if each is not None), key=lambda each: each.limit_bytes, default=None),
    )


def _own_groups(proc: str) -> dict[str, str]:
    """By controller the path of our group; ``""`` stands for the second version, which has one path for all."""
    found: dict[str, str] = {}
    for line in (_text(f"{proc}/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _folders(root: str, own: dict[str, str], controller: str) -> Iterator[str]:
    """The folders of our group and of those above it; in a container the own path may not be there, but its root is."""
    is_second = controller not in own
    base = root if is_second else os.path.join(root, controller)
    path = own.get("" if is_second else controller, "/")
    while True:
        folder = os.path.normpath(base + path)
        if os.path.isdir(folder):
            yield folder
        if path in ("/", ""):
            return
        path = os.path.dirname(path)


def _cpu(folder: str, root: str, own: dict[str, str]) -> CpuLimit | None:
    second = _text(f"{folder}/cpu.max")
    if second is not None:
        quota, period = second.split()
        return None if quota == "max" else CpuLimit(int(quota) / int(period), lambda: _usage_seconds(folder))
    quota_us, period_us = _number(f"{folder}/cpu.cfs_quota_us"), _number(f"{folder}/cpu.cfs_period_us")
    if quota_us is None or period_us is None or quota_us <= 0:
        return None
    accounts = next(_folders(root, own, "cpuacct"), folder)
    return CpuLimit(quota_us / period_us, lambda: _account_seconds(accounts))


def _usage_seconds(folder: str) -> float | None:
    microseconds = _field(f"{folder}/cpu.stat", "usage_usec")
    return None if microseconds is None else microseconds / 1e6


def _account_seconds(folder: str) -> float | None:
    nanoseconds = _number(f"{folder}/cpuacct.usage")
    return None if nanoseconds is None else nanoseconds / 1e9


def _memory(folder: str) -> MemoryLimit | None:
    for limit_file, used_file, idle in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _number(f"{folder}/{limit_file}")
        if limit is not None and limit < _UNLIMITED_BYTES:
            return MemoryLimit(limit, lambda used_file=used_file, idle=idle: _held_bytes(folder, used_file, idle))  # type: ignore[misc]
    return None


def _held_bytes(folder: str, used_file: str, idle: str) -> int | None:
    used = _number(f"{folder}/{used_file}")
    return None if used is None else max(0, used - (_field(f"{folder}/memory.stat", idle) or 0))


def _field(path: str, name: str) -> int | None:
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return None


def _number(path: str) -> int | None:
    """The number in a file; None where it says ``max``, or is not there."""
    text = _text(path)
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def _text(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None
