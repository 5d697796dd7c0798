"""Memory usage, of the machine or within the limit of a container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from leadline.monitor.cgroup import MemoryLimit
from leadline.monitor.processes import PROC
from leadline.records.metric import Channel

_LINES: Final = 20
"""The required lines are among the first."""


class MemorySampler:
    """Samples memory and swap; used memory is memory that is not available.

    The values are those of the machine or, with a smaller limit, of the control group; then 100 % is its limit.

    Source:
        ``/proc/meminfo`` read directly: psutil returns 0 for missing values, and reads the file twice.
    """

    kind = "memory"
    channels = (
        Channel("memory", "total", "used_bytes"),
        Channel("memory", "total", "available_bytes"),
        Channel("memory", "total", "used_percent"),
        Channel("memory", "swap", "used_bytes"),
    )
    absent: Mapping[str, str] = {}

    def __init__(self, proc: str = PROC, limit: MemoryLimit | None = None) -> None:
        self._file, self._limit = f"{proc}/meminfo", limit

    def sample(self, now: float) -> Sequence[float | None]:
        sizes = self._sizes()
        total, available = sizes.get(b"MemTotal"), sizes.get(b"MemAvailable")
        used = _difference(total, available)
        if self._limit is not None and (total is None or self._limit.limit_bytes < total):
            total, used, available = self._within_limit(self._limit, available)
        percent = 100.0 * used / total if used is not None and total else None
        return [used, available, percent, _difference(sizes.get(b"SwapTotal"), sizes.get(b"SwapFree"))]

    @staticmethod
    def _within_limit(limit: MemoryLimit, free: float | None) -> tuple[float, float | None, float | None]:
        """Return limit, used and available memory of the group; a full machine limits the available memory."""
        used = limit.used_bytes()
        rest = None if used is None else float(max(0, limit.limit_bytes - used))
        available = rest if free is None else free if rest is None else min(rest, free)
        return float(limit.limit_bytes), None if used is None else float(used), available

    def _sizes(self) -> dict[bytes, float]:
        with open(self._file, "rb") as file:
            parts = (line.partition(b":") for line in file.readlines()[:_LINES])
            return {name: 1024.0 * int(rest.split(None, 1)[0]) for name, _, rest in parts}


def _difference(total: float | None, rest: float | None) -> float | None:
    return None if total is None or rest is None else max(0.0, total - rest)
