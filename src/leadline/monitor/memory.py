"""The machine's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psutil

from leadline.records.metric import Channel


class MemorySampler:
    """Memory and swap of the whole machine.

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

    def sample(self, now: float) -> Sequence[float | None]:
        memory = psutil.virtual_memory()
        return [memory.used, memory.available, memory.percent, psutil.swap_memory().used]
