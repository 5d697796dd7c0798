"""Disk throughput, and free space on the file system of the run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from leadline.monitor.processes import PROC
from leadline.monitor.sampler import Rate
from leadline.records.metric import Channel

BLOCKS: Final = "/sys/block"
_SECTOR_BYTES: Final = 512
"""Unit of the kernel's counters, regardless of the disk's sector size."""
_LIST_SECONDS: Final = 60.0
_NOT_PHYSICAL: Final = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Devices in memory, or on top of disks that are counted already."""


class DiskSampler:
    """Samples the throughput of all physical disks and the free space on the file system of the run.

    Source:
        ``/proc/diskstats`` read directly: psutil reads ``/sys`` for every line and counts stacked devices twice.
    Blind spot:
        Traffic of network file systems is in no disk counter; it appears as network traffic.
    """

    kind = "disk"
    channels = (
        Channel("disk", "total", "read_bytes_per_second"),
        Channel("disk", "total", "write_bytes_per_second"),
        Channel("disk", "run", "free_bytes"),
    )

    def __init__(self, run: str, proc: str = PROC, blocks: str = BLOCKS) -> None:
        self.absent: dict[str, str] = {}
        self._run, self._counters_file, self._blocks = run, f"{proc}/diskstats", blocks
        self._physical: frozenset[bytes] = frozenset()
        self._listed_at = float("-inf")
        self._read, self._write = Rate(), Rate()

    def sample(self, now: float) -> Sequence[float | None]:
        read, written = self._counters(now)
        return [self._read.per_second(read, now), self._write.per_second(written, now), self._free()]

    def _counters(self, now: float) -> tuple[int | None, int | None]:
        if now >= self._listed_at + _LIST_SECONDS:
            self._list(now)
        if not self._physical:
            return None, None
        with open(self._counters_file, "rb") as file:
            lines = [line.split(None, 10) for line in file]
        physical = [fields for fields in lines if fields[2] in self._physical]
        read, written = (sum(int(fields[column]) for fields in physical) for column in (5, 9))
        return read * _SECTOR_BYTES, written * _SECTOR_BYTES

    def _list(self, now: float) -> None:
        self._listed_at = now
        try:
            names = os.listdir(self._blocks)
        except OSError as error:
            self.absent["disk.total"] = f"{self._blocks} cannot be read: {error.strerror}"
            return
        self._physical = frozenset(name.encode() for name in names if not name.startswith(_NOT_PHYSICAL))
        if self._physical:
            self.absent.pop("disk.total", None)
        else:
            self.absent["disk.total"] = "no physical disk found"

    def _free(self) -> float | None:
        try:
            stats = os.statvfs(self._run)
        except OSError:
            return None
        return float(stats.f_bavail * stats.f_frsize)
