"""The rule batch_size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import (
    CPU,
    GPU,
    GPU_MEMORY,
    NO_GPU,
    SCAN_SECONDS,
    DeviceMetric,
    DeviceMetrics,
    device_name,
    percentile,
    too_few,
)
from leadline.rules.system.phase_times import WATCHED, PhaseTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Machine:
    cpu: DeviceMetrics
    gpu: DeviceMetrics
    memory: DeviceMetrics
    phases: PhaseTimes = field(default_factory=PhaseTimes)


class BatchSize(Rule, frozen=True, kw_only=True):
    """Fires when a GPU, its memory and its node's CPU are all little used: the batch could be larger.

    Why it matters:
        A batch that leaves both processors and memory half empty pays a kernel's start-up for little work; larger
        batches, or a smaller and cheaper machine, do the same for less.
    How it decides:
        Over the last ``window`` samples the 95th percentiles (linear between neighbours) of the node's CPU, of the
        GPU's utilization and of its memory are all below their thresholds; the first ``patience`` samples are passed
        over. Each GPU by itself. The finding names the phases, and what
        detailed windows recorded of the operators, of that time.
    Not a number:
        What could not be read has no sample; nothing is judged before all three windows are full.
    Blind spots:
        What else bounds the training (input, communication) leaves the same mark: look at what bound the run first.
        A larger batch may need another learning rate.
    Args:
        cpu_threshold_p95: Percent of all cores, 0 to 100.
        gpu_threshold_p95: Percent of a GPU, 0 to 100.
        gpu_memory_threshold_p95: Percent of a GPU's memory, 0 to 100.
        patience: Samples passed over at the start, >= 0.
        window: Samples per percentile, >= 1.
    Source:
        SageMaker developer guide, "BatchSize" (``smdebug_rulesconfig`` 1.0.1 has patience 1000).
    """

    cpu_threshold_p95: Annotated[float, msgspec.Meta(ge=0, le=100)] = 70.0
    gpu_threshold_p95: Annotated[float, msgspec.Meta(ge=0, le=100)] = 70.0
    gpu_memory_threshold_p95: Annotated[float, msgspec.Meta(ge=0, le=100)] = 70.0
    patience: Annotated[int, msgspec.Meta(ge=0)] = 100
    window: Annotated[int, msgspec.Meta(ge=1)] = 500

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(CPU, GPU, GPU_MEMORY), phases=WATCHED, operators=True)

    def remember(self, memory: Any, window: Window) -> _Machine:
        machine: _Machine = memory or _Machine(self._gauges(), self._gauges(), self._gauges())
        for gauges, need in ((machine.cpu, CPU), (machine.gpu, GPU), (machine.memory, GPU_MEMORY)):
            gauges.add(window.samples(need.kind, need.metric, need.device))
        machine.phases.add_window(window)
        return machine

    def _gauges(self) -> DeviceMetrics:
        return DeviceMetrics(self.patience, self.window)

    def evaluate(self, window: Window) -> Verdict:
        machine: _Machine = window.memory
        memories = {(each.node, each.device): gauge for each, gauge in machine.memory.full().items()}
        has_judged, found = False, []
        for sensor, gpu in machine.gpu.full().items():
            cpu, memory = machine.cpu.of_node(sensor.node), memories.get((sensor.node, sensor.device))
            if cpu is None or len(cpu.values) < self.window or memory is None:
                continue
            has_judged = True
            p95 = tuple(percentile(each.values, 95) for each in (cpu, gpu, memory))
            limits = (self.cpu_threshold_p95, self.gpu_threshold_p95, self.gpu_memory_threshold_p95)
            if all(each < limit for each, limit in zip(p95, limits, strict=True)):
                found.append((sensor, gpu, p95))
        if found:
            return self._fired(machine, found)
        return Clear() if has_judged else Undecided(too_few((machine.cpu, machine.gpu, machine.memory), NO_GPU))

    def _fired(self, machine: _Machine, found: list[tuple[Sensor, DeviceMetric, tuple[float, ...]]]) -> Fired:
        sensor, gpu, (cpu_p95, gpu_p95, memory_p95) = min(found, key=lambda each: (each[2][1], each[0]))
        step_ns = (gpu.times_ns[-1] - gpu.times_ns[0]) // max(1, len(gpu.times_ns) - 1)
        meanwhile = machine.phases.meanwhile(gpu.times_ns, step_ns or 1)
        return Fired(
            f"95 % of the last {self.window:,} samples are at most: {device_name(sensor)} {gpu_p95:.0f} %, its memory "
            f"{memory_p95:.0f} %, CPU {cpu_p95:.0f} %{and_more(len(found) - 1, 'GPU')}{meanwhile.spoken}",
            tensors=tuple(device_name(each) for each, _, _ in found),
            evidence={"cpu_p95": cpu_p95, "gpu_p95": gpu_p95, "gpu_memory_p95": memory_p95, **meanwhile.evidence},
            suggestion="a batch twice as large (and the learning rate with it), or a smaller machine; "
            "usually the batch is too small for the GPU",
        )
