"""System metrics: channels and their readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVALS_MS: Final = (100, 200, 500, 1000, 5000, 60000)
"""Allowed sampling intervals of system metrics."""
GPU_METRICS: Final = (
    "utilization_percent",
    "memory_bandwidth_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_used_percent",
    "temperature_celsius",
    "power_watts",
)
"""What is read of GPUs of any make, in this order."""
NOT_SAMPLED: Final = 0
"""The interval of a run whose metrics are not sampled any more."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One metric of one device."""

    kind: str
    """``cpu``, ``memory``, ``disk``, ``network``, ``process``, ``gpu``."""
    device: str
    """The device: ``total``, ``core3``, ``/``, ``eth0``, ``job``, ``gpu0``."""
    metric: str
    """The metric's name with its unit: ``utilization_percent``, ``used_bytes``, ``read_bytes_per_second``."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One sampled value; a value that could not be read has no reading."""

    channel: Channel
    time_ns: int
    value: float
