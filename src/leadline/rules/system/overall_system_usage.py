"""The rule overall_system_usage."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

from leadline.analysis.time_document import Utilization
from leadline.reader.interval import Sensor
from leadline.rules import Clear, MetricNeed, Undecided, Verdict, Window
from leadline.rules.system.system_rule import CPU, GPU, GPU_MEMORY, IOWAIT, MEMORY, SystemRule

_METRICS: Final = (
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
    table: list[Utilization] = field(default_factory=list)
    counted: int = 0
    """The number of samples in the table."""


class OverallSystemUsage(SystemRule, frozen=True, kw_only=True):
    """Never fires: keeps a table of the utilization of the machine.

    Why it matters:
        The resources that a training uses tell which machine it needs.
    How it decides:
        The table has minimum, 50th, 90th, 95th, 99th percentile (interpolated linearly) and maximum of all samples
        so far, for each node and metric (CPU, I/O wait, memory, GPU, GPU memory, network, the job's own CPU and
        memory). It is updated when the number of samples has grown by 1 %; it is ``product`` in
        ``rules/<name>/status.json``.
    Not a number:
        A metric that cannot be read has no samples, and without any samples no row.
    Blind spots:
        The numbers cover the whole run, including start and end.
    Source:
        SageMaker developer guide, "OverallSystemUsage".
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = _METRICS

    def remember(self, memory: Any, window: Window) -> _Usage:
        usage: _Usage = memory or _Usage()
        for need in _METRICS:
            for batch in window.samples(need.kind, need.metric, need.device):
                usage.values.setdefault(batch.sensor, array("d")).extend(batch.values)
        count = sum(map(len, usage.values.values()))
        if count > usage.counted * _GROWTH:
            usage.counted = count
            usage.table = [_row(sensor, values) for sensor, values in sorted(usage.values.items())]
        return usage

    def evaluate(self, window: Window) -> Verdict:
        usage: _Usage = window.memory
        return Clear({"usage": usage.table}) if usage.table else Undecided("no system metrics were sampled")


def _row(sensor: Sensor, values: array[float]) -> Utilization:
    import numpy as np

    percentiles = np.percentile(np.frombuffer(values, np.float64), _PERCENTILES).tolist()
    row = {**sensor._asdict(), "samples": len(values), **dict(zip(_NAMES, percentiles, strict=True))}
    return cast(Utilization, row)
