"""What the sensors of the machine showed lately, and the words of rules that look at them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.reader.interval import Samples, Sensor
from leadline.records.needs import MetricNeed

CPU: Final = MetricNeed("cpu", "utilization_percent", "total")
IOWAIT: Final = MetricNeed("cpu", "iowait_percent", "total")
MEMORY: Final = MetricNeed("memory", "used_percent", "total")
NETWORK: Final = MetricNeed("network", "utilization_percent")
GPU: Final = MetricNeed("gpu", "utilization_percent")
GPU_MEMORY: Final = MetricNeed("gpu", "memory_used_percent")

SCAN_SECONDS: Final = 5.0
"""How often rules of the machine are judged."""
NO_GPU: Final = "no GPU was read"


@dataclass(slots=True)
class DeviceMetric:
    """One sensor after its first samples."""

    values: deque[float]
    """The last of them."""
    times_ns: deque[int]
    seen: int = 0
    """How many samples there were in all."""


@dataclass(slots=True)
class DeviceMetrics:
    """Sensors of one metric.

    Args:
        patience: Samples of each sensor that are passed over at its start.
        window: Samples of each that are kept; None: all.
    """

    patience: int
    window: int | None
    by_sensor: dict[Sensor, DeviceMetric] = field(default_factory=dict)

    def add(self, samples: Iterable[Samples]) -> None:
        """Take in what came."""
        for each in samples:
            gauge = self.by_sensor.get(each.sensor)
            if gauge is None:
                gauge = DeviceMetric(deque(maxlen=self.window), deque(maxlen=self.window))
                self.by_sensor[each.sensor] = gauge
            start = max(0, self.patience - gauge.seen)
            gauge.seen += len(each.values)
            gauge.values.extend(each.values[start:].tolist())
            gauge.times_ns.extend(each.times_ns[start:].tolist())

    def full(self) -> dict[Sensor, DeviceMetric]:
        """Those whose window is full."""
        return {sensor: each for sensor, each in self.by_sensor.items() if len(each.values) == self.window}

    def of_node(self, node: str) -> DeviceMetric | None:
        """That of a node, of a metric of which each node has one."""
        return next((each for sensor, each in self.by_sensor.items() if sensor.node == node), None)


def percentile(values: Sequence[float] | deque[float], percent: float) -> float:
    """A percentile of values, between the two nearest in proportion."""
    import numpy as np

    return float(np.percentile(np.asarray(values, np.float64), percent))


def device_name(sensor: Sensor) -> str:
    """A device with its node: ``node/gpu0``; a node as a whole by its name."""
    return sensor.node if sensor.device == "total" else f"{sensor.node}/{sensor.device}"


def too_few(gauges: Iterable[DeviceMetrics], absent: str) -> str:
    """Why nothing could be decided: a sensor is missing, or has not shown enough."""
    gauges = list(gauges)
    if not all(each.by_sensor for each in gauges):
        return absent
    wanted = max(each.patience + (each.window or 1) for each in gauges)
    return f"fewer than {wanted:,} samples of the machine"
