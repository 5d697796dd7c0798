"""The disks: what goes through them, and what room the run has left."""

from __future__ import annotations

import os
from collections.abc import Sequence

import psutil

from leadline.monitor.sampler import Rate
from leadline.records.metric import Channel


class DiskSampler:
    """Bytes through all physical disks, and the room on the file system of the run.

    Blind spot:
        What goes over a network file system is in no disk's counter; it shows as network.
    """

    kind = "disk"
    channels = (
        Channel("disk", "total", "read_bytes_per_second"),
        Channel("disk", "total", "write_bytes_per_second"),
        Channel("disk", "run", "free_bytes"),
    )

    def __init__(self, run: str) -> None:
        self.absent: dict[str, str] = {}
        self._run = run
        self._read, self._write = Rate(), Rate()

    def sample(self, now: float) -> Sequence[float | None]:
        counters = self._counters()
        return [
            self._read.per_second(counters[0], now),
            self._write.per_second(counters[1], now),
            self._free(),
        ]

    def _counters(self) -> tuple[int | None, int | None]:
        if "disk.total" in self.absent:
            return None, None
        try:
            counters = psutil.disk_io_counters(nowrap=False)
        except (OSError, NotImplementedError) as error:
            self.absent["disk.total"] = f"the disks' counters cannot be read: {error}"
            return None, None
        if counters is None:
            self.absent["disk.total"] = "no disk is visible here"
            return None, None
        return counters.read_bytes, counters.write_bytes

    def _free(self) -> float | None:
        try:
            room = os.statvfs(self._run)
        except OSError:
            return None
        return float(room.f_bavail * room.f_frsize)
