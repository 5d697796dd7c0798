"""The rule low_gpu_utilization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.reader.interval import Sensor
from leadline.rules import Advice, Fired, MetricNeed
from leadline.rules.bounds import NonNegativeInt, Percent, PositiveInt
from leadline.rules.messages import fired
from leadline.rules.system.system_rule import (
    GPU,
    DeviceMetric,
    PercentileMemory,
    PercentileRule,
    device_name,
    percentile,
)

_IDLE: Final = Advice(
    "a larger batch, or the bottleneck that leadline show names under `where the time went`; usually the GPU waits for "
    "data, for the host's Python, or for other ranks"
)
_FLUCTUATING: Final = Advice(
    "prefetching and pinned memory, so that the next batch is ready when a step ends; usually the GPU waits between "
    "its steps, for data, checkpoints or evaluation on the host"
)


_Low = tuple[Sensor, DeviceMetric, float, float]
"""A GPU, its utilization, and the 95th and 5th percentile of it."""


class LowGPUUtilization(PercentileRule[_Low], frozen=True, kw_only=True):
    """Fires when a GPU is idle most of the time, or becomes idle again and again.

    Why it matters:
        An idle GPU costs as much as a busy one.
    How it decides:
        Fires if, over the last ``window`` samples, ``p95 < threshold_p95`` (idle), or else ``p5 < threshold_p5``
        (fluctuating); percentiles are interpolated linearly. The first ``patience`` samples are skipped. Each GPU is
        evaluated separately. The finding names the phases, and the operators recorded by detailed profile windows, at
        the samples below ``threshold_p95`` or ``threshold_p5``.
    Not a number:
        A metric that cannot be read has no samples; undecided until the window is full.
    Blind spots:
        The utilization tells that a kernel was running, not how much of the GPU it used: a GPU at 100 % may do little
        work. Pauses shorter than the averaging interval of the driver (up to a second) are not visible.
    Args:
        threshold_p95: Percent of a GPU, 0 to 100.
        threshold_p5: Percent of a GPU, 0 to 100.
        patience: Samples skipped at the start, >= 0.
        window: Samples per percentile, >= 1.
    Source:
        SageMaker developer guide, "LowGPUUtilization".
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (GPU,)
    filling: ClassVar[tuple[MetricNeed, ...]] = (GPU,)

    threshold_p95: Percent = 70.0
    threshold_p5: Percent = 10.0
    patience: NonNegativeInt = 1000
    window: PositiveInt = 500

    def find(self, known: PercentileMemory) -> list[_Low] | None:
        full = known.metrics[GPU].full()
        low = []
        for sensor, metric in full.items():
            p95, p5 = percentile(metric.values, 95), percentile(metric.values, 5)
            if p95 < self.threshold_p95 or p5 < self.threshold_p5:
                low.append((sensor, metric, p95, p5))
        return low if full else None

    def finding(self, known: PercentileMemory, bad: Sequence[_Low]) -> Fired:
        sensor, metric, p95, p5 = min(bad, key=lambda gpu: (gpu[2], gpu[3], gpu[0]))
        is_idle = p95 < self.threshold_p95
        limit = self.threshold_p95 if is_idle else self.threshold_p5
        times = [time_ns for time_ns, value in zip(metric.times_ns, metric.values, strict=True) if value <= limit]
        overlap = known.overlap(metric, times)
        state = (
            f"{device_name(sensor)} was at most at {p95:.0f} % in 95 % of the last {self.window:,} samples"
            if is_idle
            else f"{device_name(sensor)} fell to {p5:.0f} % or less in 5 % of the last {self.window:,} samples"
        )
        return fired(
            state,
            *(device_name(gpu) for gpu, *_ in bad),
            advice=_IDLE if is_idle else _FLUCTUATING,
            evidence={"p95": p95, "p5": p5, "kind": "idle" if is_idle else "fluctuating", **overlap.evidence},
            noun="GPU",
            then=overlap.message,
        )
