"""The CPU: how busy all cores together are, and each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psutil

from leadline.records.metric import Channel

Times = tuple[float, float, float]
"""Seconds in all, idle, waiting for I/O."""


class CpuSampler:
    """Shares of the time since the last sample, of the whole machine.

    Units:
        Percent; 100 is all cores for ``total``, one core for ``core<n>``. Waiting for I/O counts as idle.
    Source:
        ``/proc/stat`` by psutil, read once a sample.
    """

    kind = "cpu"

    def __init__(self) -> None:
        self.absent: dict[str, str] = {}
        self.channels: tuple[Channel, ...] = ()
        self._last: list[Times] = []

    def sample(self, now: float) -> Sequence[float | None]:
        cores = [_times(each) for each in psutil.cpu_times(percpu=True)]
        times = [(sum(t[0] for t in cores), sum(t[1] for t in cores), sum(t[2] for t in cores)), *cores]
        if len(times) != len(self._last):  # the first sample, or a core came or went
            self.channels = _channels(len(cores))
            self._last = times
            return [None] * len(self.channels)
        values: list[float | None] = [_share(times[0], self._last[0], waiting=True)]
        values += [_share(each, last) for each, last in zip(times, self._last, strict=True)]
        self._last = times
        return values


def _channels(cores: int) -> tuple[Channel, ...]:
    names = ("total", *(f"core{index}" for index in range(cores)))
    waiting = Channel("cpu", "total", "iowait_percent")
    return (waiting, *(Channel("cpu", name, "utilization_percent") for name in names))


def _times(cpu: Any) -> Times:
    # guest time is part of user time already
    total = cpu.user + cpu.nice + cpu.system + cpu.idle + cpu.iowait + cpu.irq + cpu.softirq + cpu.steal
    return total, cpu.idle + cpu.iowait, cpu.iowait


def _share(now: Times, last: Times, *, waiting: bool = False) -> float | None:
    total = now[0] - last[0]
    if total <= 0:
        return None
    part = now[2] - last[2] if waiting else total - (now[1] - last[1])
    # the kernel's idle counters may go back by a tick
    return min(100.0, max(0.0, 100.0 * part / total))
