"""System metrics: channels, and what was read on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVALS_MS: Final = (100, 200, 500, 1000, 5000, 60000)
"""How often the machine may be sampled."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One thing that a sampler reads."""

    kind: str
    """``cpu``, ``memory``, ``disk``, ``network``, ``process``, ``gpu``."""
    device: str
    """Which one: ``total``, ``core3``, ``/``, ``eth0``, ``job``, ``gpu0``."""
    metric: str
    """Its name with the unit: ``utilization_percent``, ``used_bytes``, ``read_bytes_per_second``."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A number that was read; one that could not be read has no reading."""

    channel: Channel
    time_ns: int
    value: float
