"""Labels and display units of metrics and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_KILO: Final = 1000.0
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
    ("cpu", "iowait_percent"): "I/O wait",
    ("gpu", "utilization_percent"): "GPU",
    ("gpu", "memory_used_percent"): "GPU memory",
    ("gpu", "memory_used_bytes"): "GPU memory",
    ("gpu", "temperature_celsius"): "GPU temperature",
    ("gpu", "power_watts"): "GPU power",
    ("memory", "used_percent"): "memory",
    ("memory", "used_bytes"): "memory",
    ("network", "received_bytes_per_second"): "network received",
    ("network", "sent_bytes_per_second"): "network sent",
    ("disk", "read_bytes_per_second"): "disk read",
    ("disk", "write_bytes_per_second"): "disk write",
    ("process", "cpu_percent"): "job CPU",
    ("process", "rss_bytes"): "job memory (RSS)",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """Display unit of a stored number."""

    name: str
    """``%``, ``GB``, ``MB/s``; "": none."""
    factor: float
    """Factor from the stored number to this unit."""

    @property
    def suffix(self) -> str:
        """What follows a number: `` GB``; "" without a unit."""
        return f" {self.name}" if self.name else ""

    def axis_title(self, label: str) -> str:
        """Return the title of an axis: ``memory (GB)``."""
        return f"{label} ({self.name})" if self.name else label


def unit_of(metric: str, largest: float = 0.0) -> Unit:
    """Return the display unit of a metric, derived from the suffix of its name.

    Args:
        largest: Largest number to be shown; selects the decimal prefix of bytes, as in the terminal.
    """
    suffix, unit = next((pair for pair in _ENDINGS if metric.endswith(pair[0])), ("", ""))
    if "bytes" not in suffix:
        return Unit(unit, 1.0)
    names, size = ["B", "kB", "MB", "GB", "TB"], 1.0
    while len(names) > 1 and largest / size >= _KILO:
        names.pop(0)
        size *= _KILO
    return Unit(names[0] + ("/s" if "second" in suffix else ""), 1.0 / size)


def metric_label(kind: str, metric: str) -> str:
    """Return the label of a metric: ``GPU memory``."""
    label = _LABELS.get((kind, metric))
    if label is not None:
        return label
    suffix = next((suffix for suffix, _ in _ENDINGS if metric.endswith(suffix)), "")
    return f"{kind} {metric.removesuffix(suffix).replace('_', ' ')}".strip()


def duration_unit(longest_seconds: float) -> Unit:
    """Return a unit for durations in seconds up to a length."""
    if longest_seconds < 1e-3:
        return Unit("µs", 1e6)
    return Unit("ms", 1e3) if longest_seconds < 1.0 else Unit("s", 1.0)
