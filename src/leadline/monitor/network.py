"""The network: what comes in and goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psutil

from leadline.monitor.sampler import Rate
from leadline.records.metric import Channel


class NetworkSampler:
    """Bytes through all interfaces but the loopback.

    Blind spot:
        InfiniBand and other RDMA traffic passes by these counters; a bridge and its members count the same bytes twice.
    """

    kind = "network"
    channels = (
        Channel("network", "total", "received_bytes_per_second"),
        Channel("network", "total", "sent_bytes_per_second"),
    )
    absent: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._received, self._sent = Rate(), Rate()

    def sample(self, now: float) -> Sequence[float | None]:
        interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
        seen = [counters for name, counters in interfaces.items() if name != "lo"]
        if not seen:
            return [None, None]
        return [
            self._received.per_second(sum(each.bytes_recv for each in seen), now),
            self._sent.per_second(sum(each.bytes_sent for each in seen), now),
        ]
