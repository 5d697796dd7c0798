"""The rule overall_system_usage."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from leadline.reader.interval import Sensor
from leadline.records.needs import MetricNeed, Needs
from leadline.records.verdict import Clear, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.system.device_metrics import CPU, GPU, GPU_MEMORY, IOWAIT, MEMORY, SCAN_SECONDS

if TYPE_CHECKING:
    from leadline.reader.window import Window

_WATCHED: Final = (
    CPU,
    IOWAIT,
    MEMORY,
    GPU,
    GPU_MEMORY,
    MetricNeed("network", "received_bytes_per_second"),
    MetricNeed("network", "sent_bytes_per_second"),
    MetricNeed("process", "cpu_percent"),
    MetricNeed("process", "rss_bytes"),
)
_PERCENTILES: Final = (0, 50, 90, 95, 99, 100)
_NAMES: Final = ("min", "p50", "p90", "p95", "p99", "max")
_GROWTH: Final = 1.01


@dataclass(slots=True)
class _Usage:
    values: dict[Sensor, array[float]] = field(default_factory=dict)
    table: list[dict[str, Any]] = field(default_factory=list)
    counted: int = 0
    """Samples of which the table was made."""


class OverallSystemUsage(Rule, frozen=True, kw_only=True):
    """Never fires: keeps a table of how the machine was used.

    Why it matters:
        What a training takes of the machine says which machine it needs.
    How it decides:
        Over all samples so far, for each node and metric (CPU, I/O wait, memory, GPU, GPU memory, network, the job's
        own CPU and memory) minimum, 50th, 90th, 95th, 99th percentile (linear between neighbours) and maximum. The
        table is made anew when the samples have grown by a hundredth; it is ``product`` in
        ``rules/<name>/status.json``.
    Not a number:
        What could not be read has no sample, and what was never read no row.
    Blind spots:
        Its numbers are of the whole run, start and end included.
    Args:
    Source:
        SageMaker developer guide, "OverallSystemUsage".
    """

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=_WATCHED)

    def remember(self, memory: Any, window: Window) -> _Usage:
        usage: _Usage = memory or _Usage()
        for need in _WATCHED:
            for each in window.samples(need.kind, need.metric, need.device):
                usage.values.setdefault(each.sensor, array("d")).extend(each.values)
        count = sum(map(len, usage.values.values()))
        if count > usage.counted * _GROWTH:
            usage.counted = count
            usage.table = [_row(sensor, values) for sensor, values in sorted(usage.values.items())]
        return usage

    def evaluate(self, window: Window) -> Verdict:
        usage: _Usage = window.memory
        return Clear({"usage": usage.table}) if usage.table else Undecided("the machine was not sampled")


def _row(sensor: Sensor, values: array[float]) -> dict[str, Any]:
    import numpy as np

    found = np.percentile(np.frombuffer(values, np.float64), _PERCENTILES).tolist()
    return {**sensor._asdict(), "samples": len(values), **dict(zip(_NAMES, found, strict=True))}
