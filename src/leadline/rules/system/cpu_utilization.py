"""The rule cpu_utilization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.reader.interval import Sensor
from leadline.records.formatting import exact
from leadline.rules import Advice, Fired, MetricNeed
from leadline.rules.bounds import NonNegativeInt, Percent, PositiveInt
from leadline.rules.messages import fired
from leadline.rules.system.system_rule import CPU, DeviceMetric, PercentileMemory, PercentileRule, percentile

_FULL: Final = Advice(
    "fewer data loader workers or threads than cores, or more cores; usually too many processes share the cores"
)
_IDLE: Final = Advice(
    "a smaller machine, or more data loader workers; usually the node waits, or has more than it needs"
)


_Node = tuple[Sensor, float, DeviceMetric]
"""A node, its 95th percentile and its samples."""


class CPUUtilization(PercentileRule[_Node], frozen=True, kw_only=True):
    """Fires when the CPU of a node is full, or hardly used at all.

    Why it matters:
        A full CPU slows down data loading and kernel launches; an idle one costs money for nothing.
    How it decides:
        Fires if ``p95 > high_threshold`` or ``p95 < low_threshold`` over the last ``window`` samples of a node (the
        percentile is interpolated linearly). The first ``patience`` samples are skipped. 100 % is all cores that the
        job may use. Each node is evaluated separately. The finding names the phases at that time, and the operators
        recorded by detailed profile windows.
    Not a number:
        A metric that cannot be read has no samples; undecided until the window is full.
    Blind spots:
        The metric is the mean over all cores, and includes processes that do not belong to the job. On a node that
        trains on its CPU, a full CPU is expected.
    Args:
        high_threshold: Percent of all cores, 0 to 100.
        low_threshold: Percent of all cores, 0 to 100, <= high_threshold.
        window: Samples per percentile, >= 1.
        patience: Samples skipped at the start, >= 0.
    Source:
        SageMaker developer guide, "CPUUtilization" and the summary of the profiling report.
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (CPU,)
    filling: ClassVar[tuple[MetricNeed, ...]] = (CPU,)

    high_threshold: Percent = 95.0
    low_threshold: Percent = 5.0
    window: PositiveInt = 500
    patience: NonNegativeInt = 100

    def check(self) -> None:
        if self.low_threshold > self.high_threshold:
            raise ConfigurationError("cpu_utilization: low_threshold must be <= high_threshold")

    def find(self, known: PercentileMemory) -> list[_Node] | None:
        nodes = [
            (sensor, percentile(metric.values, 95), metric) for sensor, metric in known.metrics[CPU].full().items()
        ]
        outside = [node for node in nodes if not self.low_threshold <= node[1] <= self.high_threshold]
        return outside if nodes else None

    def finding(self, known: PercentileMemory, bad: Sequence[_Node]) -> Fired:
        sensor, p95, metric = max(bad, key=lambda node: (node[1], node[0]))
        overlap = known.overlap(metric)
        is_high = p95 > self.high_threshold
        limit = self.high_threshold if is_high else self.low_threshold
        return fired(
            f"the CPU of {sensor.node} reaches {p95:.0f} % (95th percentile of {self.window:,} samples), "
            f"{'above' if is_high else 'below'} {exact(limit)} %",
            *(sensor.node for sensor, _, _ in bad),
            advice=_FULL if is_high else _IDLE,
            evidence={"p95": p95, "limit": limit, **overlap.evidence},
            noun="node",
            then=overlap.message,
        )
