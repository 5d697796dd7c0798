"""The machine's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import psutil

from leadline.records.metric import Channel

SWAP_SECONDS: Final = 5.0


class MemorySampler:
    """Memory of the whole machine; swap every 5 s, since it costs as much as all else here and changes slowly.

    Source:
        ``/proc/meminfo`` by psutil; ``percent`` is what is not available.
    """

    kind = "memory"
    channels = (
        Channel("memory", "total", "used_bytes"),
        Channel("memory", "total", "available_bytes"),
        Channel("memory", "total", "used_percent"),
        Channel("memory", "swap", "used_bytes"),
    )
    absent: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._swap_at = float("-inf")

    def sample(self, now: float) -> Sequence[float | None]:
        memory = psutil.virtual_memory()
        return [memory.used, memory.available, memory.percent, self._swap(now)]

    def _swap(self, now: float) -> float | None:
        if now < self._swap_at:
            return None
        self._swap_at = now + SWAP_SECONDS
        return float(psutil.swap_memory().used)
