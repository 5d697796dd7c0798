"""The rule batch_size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.reader.interval import Sensor
from leadline.rules import Advice, Fired, MetricNeed
from leadline.rules.bounds import NonNegativeInt, Percent, PositiveInt
from leadline.rules.messages import fired
from leadline.rules.system.system_rule import (
    CPU,
    GPU,
    GPU_MEMORY,
    DeviceMetric,
    PercentileMemory,
    PercentileRule,
    device_name,
    percentile,
)

_ADVICE: Final = Advice(
    "a batch twice as large (and the learning rate with it), or a smaller machine; usually the batch is too small for "
    "the GPU"
)


_Low = tuple[Sensor, DeviceMetric, tuple[float, ...]]
"""A GPU, its utilization, and the 95th percentiles of CPU, GPU and GPU memory."""


class BatchSize(PercentileRule[_Low], frozen=True, kw_only=True):
    """Fires when a GPU, its memory and the CPU of its node all have a low utilization: the batch could be larger.

    Why it matters:
        A batch that leaves processors and memory half empty pays the launch overhead of each kernel for little work;
        a larger batch, or a smaller and cheaper machine, does the same for less.
    How it decides:
        Fires if the 95th percentiles (interpolated linearly) of the node's CPU, of the GPU's utilization and of its
        memory over the last ``window`` samples are all below their thresholds. The first ``patience`` samples are
        skipped. Each GPU is evaluated separately. The finding names the phases at that time, and the operators
        recorded by detailed profile windows.
    Not a number:
        A metric that cannot be read has no samples; undecided until all three windows are full.
    Blind spots:
        Other bottlenecks (input, communication) show the same symptoms: check the bottleneck of the run first. A
        larger batch may need another learning rate.
    Args:
        cpu_threshold_p95: Percent of all cores, 0 to 100.
        gpu_threshold_p95: Percent of a GPU, 0 to 100.
        gpu_memory_threshold_p95: Percent of a GPU's memory, 0 to 100.
        patience: Samples skipped at the start, >= 0.
        window: Samples per percentile, >= 1.
    Source:
        SageMaker developer guide, "BatchSize" (``smdebug_rulesconfig`` 1.0.1 has patience 1000).
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (CPU, GPU, GPU_MEMORY)
    filling: ClassVar[tuple[MetricNeed, ...]] = (GPU, CPU, GPU_MEMORY)

    cpu_threshold_p95: Percent = 70.0
    gpu_threshold_p95: Percent = 70.0
    gpu_memory_threshold_p95: Percent = 70.0
    patience: NonNegativeInt = 100
    window: PositiveInt = 500

    def find(self, known: PercentileMemory) -> list[_Low] | None:
        gpu_memory = {
            (sensor.node, sensor.device): metric for sensor, metric in known.metrics[GPU_MEMORY].full().items()
        }
        limits = (self.cpu_threshold_p95, self.gpu_threshold_p95, self.gpu_memory_threshold_p95)
        is_judged, low = False, []
        for sensor, gpu in known.metrics[GPU].full().items():
            cpu, memory = known.metrics[CPU].of_node(sensor.node), gpu_memory.get((sensor.node, sensor.device))
            if cpu is None or len(cpu.values) < self.window or memory is None:
                continue
            is_judged = True
            p95 = tuple(percentile(metric.values, 95) for metric in (cpu, gpu, memory))
            if all(value < limit for value, limit in zip(p95, limits, strict=True)):
                low.append((sensor, gpu, p95))
        return low if is_judged else None

    def finding(self, known: PercentileMemory, bad: Sequence[_Low]) -> Fired:
        sensor, gpu, (cpu_p95, gpu_p95, memory_p95) = min(bad, key=lambda device: (device[2][1], device[0]))
        overlap = known.overlap(gpu)
        return fired(
            f"95 % of the last {self.window:,} samples are at most: {device_name(sensor)} {gpu_p95:.0f} %, its memory "
            f"{memory_p95:.0f} %, CPU {cpu_p95:.0f} %",
            *(device_name(device) for device, _, _ in bad),
            advice=_ADVICE,
            evidence={"cpu_p95": cpu_p95, "gpu_p95": gpu_p95, "gpu_memory_p95": memory_p95, **overlap.evidence},
            noun="GPU",
            then=overlap.message,
        )
