"""The machine's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from leadline.monitor.processes import PROC
from leadline.records.metric import Channel

_LINES: Final = 20
"""What is asked stands among the first."""


class MemorySampler:
    """Memory and swap of the whole machine; what is used is what is not available.

    Source:
        ``/proc/meminfo`` read directly: psutil makes 0 of what is missing there, and reads it twice.
    """

    kind = "memory"
    channels = (
        Channel("memory", "total", "used_bytes"),
        Channel("memory", "total", "available_bytes"),
        Channel("memory", "total", "used_percent"),
        Channel("memory", "swap", "used_bytes"),
    )
    absent: Mapping[str, str] = {}

    def __init__(self, proc: str = PROC) -> None:
        self._file = f"{proc}/meminfo"

    def sample(self, now: float) -> Sequence[float | None]:
        sizes = self._sizes()
        total, available = sizes.get(b"MemTotal"), sizes.get(b"MemAvailable")
        used = _difference(total, available)
        percent = 100.0 * used / total if used is not None and total else None
        return [used, available, percent, _difference(sizes.get(b"SwapTotal"), sizes.get(b"SwapFree"))]

    def _sizes(self) -> dict[bytes, float]:
        with open(self._file, "rb") as file:
            parts = (line.partition(b":") for line in file.readlines()[:_LINES])
            return {name: 1024.0 * int(rest.split(None, 1)[0]) for name, _, rest in parts}


def _difference(total: float | None, rest: float | None) -> float | None:
    return None if total is None or rest is None else max(0.0, total - rest)
