"""Network throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.monitor.processes import PROC
from leadline.monitor.sampler import Rate
from leadline.records.metric import Channel


class NetworkSampler:
    """Samples the throughput of all interfaces except the loopback.

    Blind spot:
        InfiniBand and other RDMA traffic bypasses these counters; a bridge and its members count the same bytes
        twice.
    """

    kind = "network"
    channels = (
        Channel("network", "total", "received_bytes_per_second"),
        Channel("network", "total", "sent_bytes_per_second"),
    )
    absent: Mapping[str, str] = {}

    def __init__(self, proc: str = PROC) -> None:
        self._file = f"{proc}/net/dev"
        self._received, self._sent = Rate(), Rate()

    def sample(self, now: float) -> Sequence[float | None]:
        with open(self._file, "rb") as file:
            lines = [line.partition(b":") for line in file.readlines()[2:]]
        counters = [fields.split() for name, _, fields in lines if name.strip() != b"lo"]
        if not counters:
            return [None, None]
        return [
            self._received.per_second(sum(int(fields[0]) for fields in counters), now),
            self._sent.per_second(sum(int(fields[8]) for fields in counters), now),
        ]
