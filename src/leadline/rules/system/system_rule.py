"""Base classes of the rules on sampled hardware metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from leadline.reader.interval import Samples, Sensor
from leadline.rules import Clear, Fired, MetricNeed, Needs, NotApplicable, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.messages import too_few
from leadline.rules.system.phase_times import TIMELINE_ROWS, PhaseOverlap, PhaseTimes

CPU: Final = MetricNeed("cpu", "utilization_percent", "total")
IOWAIT: Final = MetricNeed("cpu", "iowait_percent", "total")
MEMORY: Final = MetricNeed("memory", "used_percent", "total")
NETWORK: Final = MetricNeed("network", "utilization_percent")
GPU: Final = MetricNeed("gpu", "utilization_percent")
GPU_MEMORY: Final = MetricNeed("gpu", "memory_used_percent")

NO_METRICS: Final = "no system metrics were sampled"
SCAN_SECONDS: Final = 5.0
"""The interval at which rules on hardware metrics are evaluated."""


@dataclass(slots=True)
class DeviceMetric:
    """The samples of one device after the first ones, which are skipped."""

    values: deque[float]
    """The latest values."""
    times_ns: deque[int]
    seen: int = 0
    """The number of all samples, including the skipped ones."""

    @property
    def interval_ns(self) -> int:
        """The mean time between two samples, at least 1."""
        return (self.times_ns[-1] - self.times_ns[0]) // max(1, len(self.times_ns) - 1) or 1


@dataclass(slots=True)
class DeviceMetrics:
    """The latest samples of one metric on all devices.

    Args:
        patience: Samples of each device that are skipped at its start.
        window: Samples of each device that are kept; None: all.
    """

    patience: int
    window: int | None
    by_sensor: dict[Sensor, DeviceMetric] = field(default_factory=dict)

    def add(self, samples: Iterable[Samples]) -> None:
        """Append new samples."""
        for batch in samples:
            metric = self.by_sensor.get(batch.sensor)
            if metric is None:
                metric = DeviceMetric(deque(maxlen=self.window), deque(maxlen=self.window))
                self.by_sensor[batch.sensor] = metric
            start = max(0, self.patience - metric.seen)
            metric.seen += len(batch.values)
            metric.values.extend(batch.values[start:].tolist())
            metric.times_ns.extend(batch.times_ns[start:].tolist())

    def full(self) -> dict[Sensor, DeviceMetric]:
        """Return the devices whose window is full."""
        return {sensor: metric for sensor, metric in self.by_sensor.items() if len(metric.values) == self.window}

    def of_node(self, node: str) -> DeviceMetric | None:
        """Return the samples of a node, for a metric that each node has once."""
        return next((metric for sensor, metric in self.by_sensor.items() if sensor.node == node), None)


def percentile(values: Sequence[float] | deque[float], percent: float) -> float:
    """Return a percentile, interpolated linearly."""
    import numpy as np

    return float(np.percentile(np.asarray(values, np.float64), percent))


def device_name(sensor: Sensor) -> str:
    """Format a device with its node, such as ``node/gpu0``; a whole node by its name."""
    return sensor.node if sensor.device == "total" else f"{sensor.node}/{sensor.device}"


def without_gpu(window: Window) -> NotApplicable | Undecided:
    """Return the verdict of a rule on GPUs of which none was sampled, while the node was (needs ``CPU``)."""
    if window.samples(CPU.kind, CPU.metric, CPU.device):
        return NotApplicable("no GPU was sampled")
    return Undecided(NO_METRICS)


class SystemRule(Rule, frozen=True, kw_only=True):
    """A rule on sampled hardware metrics.

    Attributes:
        metrics: The metrics that it evaluates.
        has_phases: Whether its findings name the phases and operators at the time of the samples.
    """

    severity: ClassVar[Severity] = "advice"
    metrics: ClassVar[tuple[MetricNeed, ...]]
    has_phases: ClassVar[bool] = False

    def needs(self) -> Needs:
        metrics = tuple(dict.fromkeys((*self.metrics, CPU)))  # whether the node is sampled at all
        if self.has_phases:
            return Needs(scan_seconds=SCAN_SECONDS, metrics=metrics, phases=TIMELINE_ROWS, operators=True)
        return Needs(scan_seconds=SCAN_SECONDS, metrics=metrics)


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


Full = TypeVar("Full")
"""A device with full windows, as a rule evaluates it."""


class PercentileRule(SystemRule, Generic[Full], frozen=True, kw_only=True):
    """A rule on percentiles of the last ``window`` samples after the first ``patience`` of each device.

    It is undecided until a window is full, and not applicable on a node without the device.

    Attributes:
        filling: The metrics whose windows must be full; that of the devices comes first.
    """

    has_phases: ClassVar[bool] = True
    filling: ClassVar[tuple[MetricNeed, ...]]

    if TYPE_CHECKING:  # parameters of each rule, with their own bounds, defaults and order
        window: int
        patience: int

    def find(self, known: PercentileMemory) -> Sequence[Full] | None:
        """Return the devices that fail the test; None if no window is full."""
        raise NotImplementedError

    def finding(self, known: PercentileMemory, bad: Sequence[Full]) -> Fired:
        """Return the verdict on the devices that fail the test, of which there is at least one."""
        raise NotImplementedError

    def remember(self, memory: Any, window: Window) -> PercentileMemory:
        known: PercentileMemory = memory or PercentileMemory(
            {need: DeviceMetrics(self.patience, self.window) for need in self.metrics}
        )
        for need, metric in known.metrics.items():
            metric.add(window.samples(need.kind, need.metric, need.device))
        known.phases.add_window(window)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: PercentileMemory = window.memory
        bad = self.find(known)
        if bad is not None:
            return self.finding(known, bad) if bad else Clear()
        filling = [known.metrics[need] for need in self.filling]
        if not filling[0].by_sensor:
            return without_gpu(window)
        seen = min(max((metric.seen for metric in devices.by_sensor.values()), default=0) for devices in filling)
        return too_few(seen, self.patience + self.window, "system samples")
