"""Base classes of the rules on sampled hardware metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.records.needs import MetricNeed, Needs
from leadline.rules.rule import Rule
from leadline.rules.system.device_metrics import DeviceMetric, DeviceMetrics, too_few_samples
from leadline.rules.system.phase_times import TIMELINE_ROWS, PhaseOverlap, PhaseTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window

SCAN_SECONDS: Final = 5.0
"""The interval at which rules on hardware metrics are evaluated."""


class SystemRule(Rule, frozen=True, kw_only=True):
    """A rule on sampled hardware metrics.

    Attributes:
        metrics: The metrics that it evaluates.
        has_phases: Whether its findings name the phases and operators at the time of the samples.
    """

    metrics: ClassVar[tuple[MetricNeed, ...]]
    has_phases: ClassVar[bool] = False

    def needs(self) -> Needs:
        if self.has_phases:
            return Needs(scan_seconds=SCAN_SECONDS, metrics=self.metrics, phases=TIMELINE_ROWS, operators=True)
        return Needs(scan_seconds=SCAN_SECONDS, metrics=self.metrics)


@dataclass(slots=True)
class PercentileMemory:
    """The latest samples of each metric, and the phases of the training at that time."""

    metrics: dict[MetricNeed, DeviceMetrics]
    phases: PhaseTimes = field(default_factory=PhaseTimes)

    def overlap(self, metric: DeviceMetric, times_ns: Iterable[int] | None = None) -> PhaseOverlap:
        """Return the phases and operators at the times of a device's samples.

        Args:
            times_ns: The times of some of the samples; None: all.
        """
        return self.phases.overlap(metric.times_ns if times_ns is None else times_ns, metric.interval_ns)


class PercentileRule(SystemRule, frozen=True, kw_only=True):
    """A rule on percentiles of the last ``window`` samples after the first ``patience`` of each device."""

    has_phases: ClassVar[bool] = True

    if TYPE_CHECKING:  # parameters of each rule, with their own bounds, defaults and order
        window: int
        patience: int

    def remember(self, memory: Any, window: Window) -> PercentileMemory:
        known: PercentileMemory = memory or PercentileMemory(
            {need: DeviceMetrics(self.patience, self.window) for need in self.metrics}
        )
        for need, metric in known.metrics.items():
            metric.add(window.samples(need.kind, need.metric, need.device))
        known.phases.add_window(window)
        return known

    def undecided_reason(self, metrics: Iterable[DeviceMetrics], absent: str) -> str:
        """Explain why no window is full: ``absent`` if a metric has no samples at all, else too few of them."""
        has_all = all(metric.by_sensor for metric in metrics)
        return too_few_samples(self.patience + self.window) if has_all else absent
