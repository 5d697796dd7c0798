"""CPU utilization, in total and for each core."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import psutil

from leadline.monitor.cgroup import CpuLimit
from leadline.records.metric import Channel

Times = tuple[float, float, float]
"""Total, idle and I/O wait seconds."""


class CpuSampler:
    """Samples the utilization of the CPU time available to the job, since the last sample.

    Units:
        Percent; for ``total`` 100 is all cores that the job may use, for ``core<n>`` one core. Under a smaller
        container quota, 100 is the quota, and all processes that share it count. I/O wait counts as idle.
    Source:
        ``/proc/stat`` through psutil, read once per sample; under a quota the control group's CPU accounting.
    """

    kind = "cpu"

    def __init__(
        self,
        limit: CpuLimit | None = None,
        allowed: Callable[[], Collection[int]] = lambda: os.sched_getaffinity(0),
    ) -> None:
        """
        Args:
            limit: The limit of the own control group; None for no limit.
            allowed: Returns the numbers of the cores that this process may use.
        """
        self.absent: dict[str, str] = {}
        self.channels: tuple[Channel, ...] = ()
        self._limit, self._allowed = limit, allowed
        self._last: list[Times] = []
        self._last_used: tuple[float, float] | None = None

    def sample(self, now: float) -> Sequence[float | None]:
        numbers, cores = self._read()
        times = [(sum(t[0] for t in cores), sum(t[1] for t in cores), sum(t[2] for t in cores)), *cores]
        quota = self._share_of_quota(len(cores), now)
        channels = _channels(numbers)
        if channels != self.channels:  # the first sample, or the set of cores changed
            self.channels, self._last = channels, times
            return [None] * len(self.channels)
        values: list[float | None] = [_share(times[0], self._last[0], waiting=True)]
        values += [_share(current, last) for current, last in zip(times, self._last, strict=True)]
        self._last = times
        if self._has_quota(len(cores)):
            values[1] = quota
        return values

    def _read(self) -> tuple[list[int], list[Times]]:
        """Return numbers and times of the cores that the job may use."""
        all_cores = [_times(core) for core in psutil.cpu_times(percpu=True)]
        numbers = sorted(number for number in self._allowed() if number < len(all_cores)) or list(range(len(all_cores)))
        return numbers, [all_cores[number] for number in numbers]

    def _has_quota(self, cores: int) -> bool:
        return self._limit is not None and self._limit.cores < cores

    def _share_of_quota(self, cores: int, now: float) -> float | None:
        if self._limit is None or not self._has_quota(cores):
            return None
        used = self._limit.used_seconds()
        last, self._last_used = self._last_used, None if used is None else (now, used)
        if used is None:
            self.absent["total.utilization_percent"] = "the control group's CPU accounting cannot be read"
        if used is None or last is None or now <= last[0]:
            return None
        # within one period the kernel lets a group exceed its quota
        return min(100.0, max(0.0, 100.0 * (used - last[1]) / (now - last[0]) / self._limit.cores))


def _channels(cores: Sequence[int]) -> tuple[Channel, ...]:
    names = ("total", *(f"core{number}" for number in cores))
    waiting = Channel("cpu", "total", "iowait_percent")
    return (waiting, *(Channel("cpu", name, "utilization_percent") for name in names))


def _times(cpu: Any) -> Times:
    # guest time is included in user time
    total = cpu.user + cpu.nice + cpu.system + cpu.idle + cpu.iowait + cpu.irq + cpu.softirq + cpu.steal
    return total, cpu.idle + cpu.iowait, cpu.iowait


def _share(now: Times, last: Times, *, waiting: bool = False) -> float | None:
    total = now[0] - last[0]
    if total <= 0:
        return None
    part = now[2] - last[2] if waiting else total - (now[1] - last[1])
    # the kernel's idle counters may decrease by a tick
    return min(100.0, max(0.0, 100.0 * part / total))
