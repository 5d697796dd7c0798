"""Resource usage of all processes of the job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from leadline.monitor.processes import PROC, Identity, ProcessStat, ProcessTree
from leadline.records.metric import Channel

RESCAN_SECONDS: Final = 5.0
PSS_SECONDS: Final = 30.0
_MAX_PSS_PROCESSES: Final = 64
"""Maximum number of processes for which the proportional set size is read, which is expensive."""


class JobSampler:
    """Samples sums over the job's processes.

    Units:
        ``cpu_percent``: 100 is one core. ``rss_bytes`` counts shared memory once per process; ``pss_bytes``, read
        every 30 s, divides it among the processes.
    Blind spots:
        A process that starts and ends between two rescans (5 s apart while none ends) is missed; the CPU time of a
        process that ended since the last sample is not counted.
    """

    kind = "process"
    channels = (
        Channel("process", "job", "cpu_percent"),
        Channel("process", "job", "rss_bytes"),
        Channel("process", "job", "process_count"),
        Channel("process", "job", "thread_count"),
        Channel("process", "job", "pss_bytes"),
    )

    def __init__(self, tree: ProcessTree, proc: str = PROC) -> None:
        self.absent: dict[str, str] = {}
        self._tree, self._proc = tree, proc
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._tick = os.sysconf("SC_CLK_TCK")
        self._rescan_at = self._pss_at = float("-inf")
        self._count = 0
        self._last_ticks: Mapping[Identity, int] = {}
        self._last_time: float | None = None

    def sample(self, now: float) -> Sequence[float | None]:
        stats = self._stats(now)
        cpu = self._cpu_percent(stats, now)
        if not stats:
            return [None] * len(self.channels)
        return [
            cpu,
            float(sum(stat.rss_pages for stat in stats) * self._page),
            float(len(stats)),
            float(sum(stat.threads for stat in stats)),
            self._pss(stats, now),
        ]

    def _stats(self, now: float) -> list[ProcessStat]:
        stats = self._tree.refresh() if now < self._rescan_at else []
        if not stats or len(stats) != self._count:
            stats = self._tree.rescan()
            self._rescan_at = now + RESCAN_SECONDS
        self._count = len(stats)
        return stats

    def _cpu_percent(self, stats: list[ProcessStat], now: float) -> float | None:
        ticks = {stat.identity: stat.cpu_ticks for stat in stats}
        last, self._last_ticks = self._last_ticks, ticks
        last_time, self._last_time = self._last_time, now
        known = ticks.keys() & last.keys()
        if last_time is None or now <= last_time or not known:
            return None
        used = sum(ticks[identity] - last[identity] for identity in known)
        return 100.0 * used / self._tick / (now - last_time)

    def _pss(self, stats: list[ProcessStat], now: float) -> float | None:
        if now < self._pss_at or "job.pss_bytes" in self.absent:
            return None
        self._pss_at = now + PSS_SECONDS
        if len(stats) > _MAX_PSS_PROCESSES:
            return None
        try:
            return float(sum(self._pss_of(stat.pid) for stat in stats))
        except (FileNotFoundError, ProcessLookupError):  # a process has just ended; retry next time
            return None
        except OSError as error:
            self.absent["job.pss_bytes"] = f"smaps_rollup cannot be read: {error.strerror}"
            return None

    def _pss_of(self, pid: int) -> int:
        with open(f"{self._proc}/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
        return 0
