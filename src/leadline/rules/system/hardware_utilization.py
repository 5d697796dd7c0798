"""The rule hardware_utilization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.reader.interval import Sensor
from leadline.records.formatting import exact
from leadline.rules import Advice, Fired, MetricNeed
from leadline.rules.bounds import NonNegativeInt, Percent, PositiveInt
from leadline.rules.messages import and_more, fired
from leadline.rules.system.system_rule import (
    CPU,
    GPU,
    GPU_MEMORY,
    IOWAIT,
    MEMORY,
    NETWORK,
    DeviceMetric,
    PercentileMemory,
    PercentileRule,
    device_name,
    percentile,
)

_RESOURCES: Final = {
    CPU: "CPU",
    GPU: "GPU",
    MEMORY: "memory",
    GPU_MEMORY: "GPU memory",
    IOWAIT: "I/O wait",
    NETWORK: "network",
}
_SATURATED: Final = Advice(
    "more of the full resource, or less work for it; usually it is the bottleneck of the training, and the others wait "
    "for it"
)
_IDLE: Final = Advice(
    "a larger batch, faster input, or a smaller accelerator; usually the accelerator waits for the rest of the machine"
)


@dataclass(frozen=True, slots=True)
class _ResourceUsage:
    """The 95th percentile of one resource of one device."""

    resource: str
    sensor: Sensor
    p95: float
    metric: DeviceMetric

    @property
    def name(self) -> str:
        """The resource with its device, such as ``GPU of node/gpu0``."""
        return f"{self.resource} of {device_name(self.sensor)}"


class HardwareUtilization(PercentileRule[_ResourceUsage], frozen=True, kw_only=True):
    """Fires when some part of the machine is saturated, or a GPU is idle.

    Why it matters:
        A faster training needs more of the saturated resource, and less of an idle accelerator.
    How it decides:
        Fires if, over the last ``window`` samples, ``p95 > high_threshold`` of CPU, GPU, memory, GPU memory, I/O wait
        or network, or ``p95 < low_threshold`` of a GPU (percentiles are interpolated linearly). The first
        ``patience`` samples are skipped. Each device is evaluated separately. The finding names the phases at that
        time, and the operators recorded by detailed profile windows.
    Not a number:
        A metric that cannot be read has no samples; undecided until the windows of CPU and memory are full.
    Blind spots:
        The network is evaluated only if its utilization in percent is measured: the speed of a link is rarely known.
        A GPU at 100 % is what a training should have, and fires all the same: it is then the bottleneck.
    Args:
        high_threshold: Percent, 0 to 100.
        low_threshold: Percent of a GPU, 0 to 100, <= high_threshold.
        window: Samples per percentile, >= 1.
        patience: Samples skipped at the start, >= 0.
    Source:
        SageMaker developer guide, "HardwareUtilization".
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = tuple(_RESOURCES)
    filling: ClassVar[tuple[MetricNeed, ...]] = (CPU,)

    high_threshold: Percent = 95.0
    low_threshold: Percent = 20.0
    window: PositiveInt = 500
    patience: NonNegativeInt = 100

    def check(self) -> None:
        if self.low_threshold > self.high_threshold:
            raise ConfigurationError("hardware_utilization: low_threshold must be <= high_threshold")

    def find(self, known: PercentileMemory) -> list[_ResourceUsage] | None:
        usages = [
            _ResourceUsage(_RESOURCES[need], sensor, percentile(metric.values, 95), metric)
            for need, metrics in known.metrics.items()
            for sensor, metric in metrics.full().items()
        ]
        saturated = sorted((usage for usage in usages if usage.p95 > self.high_threshold), key=_highest_first)
        idle = [usage for usage in usages if usage.resource == "GPU" and usage.p95 < self.low_threshold]
        is_complete = {"CPU", "memory"} <= {usage.resource for usage in usages}
        return saturated or idle or ([] if is_complete else None)

    def finding(self, known: PercentileMemory, bad: Sequence[_ResourceUsage]) -> Fired:
        worst = bad[0]
        is_saturated = worst.p95 > self.high_threshold
        limit = f"above {exact(self.high_threshold)} %" if is_saturated else f"below {exact(self.low_threshold)} %"
        overlap = known.overlap(worst.metric)
        return fired(
            f"{worst.name} {worst.p95:.0f} %, {limit} (95th percentile of {self.window:,} samples)"
            f"{and_more(len(bad) - 1, 'part')}{overlap.message}",
            *(device_name(usage.sensor) for usage in bad),
            advice=_SATURATED if is_saturated else _IDLE,
            evidence={"p95": {usage.name: usage.p95 for usage in bad}, **overlap.evidence},
        )


def _highest_first(usage: _ResourceUsage) -> tuple[float, str, Sensor]:
    return -usage.p95, usage.resource, usage.sensor
