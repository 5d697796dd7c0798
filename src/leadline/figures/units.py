"""The words and the unit of a metric or a statistic, and the factor that brings it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_KIB: Final = 1024.0
_ENDINGS: Final = (
    ("_bytes_per_second", ""),
    ("_bytes", ""),
    ("_percent", "%"),
    ("_celsius", "°C"),
    ("_watts", "W"),
    ("_count", "count"),
    ("_ratio", "ratio"),
    ("_seconds", "s"),
)
_LABELS: Final = {
    ("cpu", "utilization_percent"): "CPU",
    ("cpu", "iowait_percent"): "waiting for I/O",
    ("gpu", "utilization_percent"): "GPU",
    ("gpu", "memory_used_percent"): "GPU memory",
    ("gpu", "memory_used_bytes"): "GPU memory",
    ("gpu", "temperature_celsius"): "GPU temperature",
    ("gpu", "power_watts"): "GPU power",
    ("memory", "used_percent"): "memory",
    ("memory", "used_bytes"): "memory",
    ("network", "received_bytes_per_second"): "network, received",
    ("network", "sent_bytes_per_second"): "network, sent",
    ("disk", "read_bytes_per_second"): "disk, read",
    ("disk", "write_bytes_per_second"): "disk, written",
    ("process", "cpu_percent"): "CPU of the job",
    ("process", "rss_bytes"): "memory of the job",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """How numbers are shown."""

    name: str
    """``%``, ``GiB``, ``MiB/s``; "": none."""
    factor: float
    """What a stored number is multiplied with."""

    def titled(self, words: str) -> str:
        """The title of an axis: ``memory (GiB)``."""
        return f"{words} ({self.name})" if self.name else words


def unit_of(metric: str, largest: float = 0.0) -> Unit:
    """The unit of a metric, which its name ends with.

    Args:
        largest: The largest number to be shown; bytes are told in a unit that suits it.
    """
    ending, unit = next((each for each in _ENDINGS if metric.endswith(each[0])), ("", ""))
    if "bytes" not in ending:
        return Unit(unit, 1.0)
    names, size = ["B", "KiB", "MiB", "GiB", "TiB"], 1.0
    while len(names) > 1 and largest / size >= _KIB:
        names.pop(0)
        size *= _KIB
    return Unit(names[0] + ("/s" if "second" in ending else ""), 1.0 / size)


def words_of(kind: str, metric: str) -> str:
    """What a metric is called in a title: ``GPU memory``."""
    known = _LABELS.get((kind, metric))
    if known is not None:
        return known
    ending = next((end for end, _ in _ENDINGS if metric.endswith(end)), "")
    return f"{kind} {metric.removesuffix(ending).replace('_', ' ')}".strip()


def seconds_unit(longest_seconds: float) -> Unit:
    """The unit for durations up to a length, of numbers that are in seconds."""
    if longest_seconds < 1e-3:
        return Unit("µs", 1e6)
    return Unit("ms", 1e3) if longest_seconds < 1.0 else Unit("s", 1.0)
