"""The rule low_gpu_utilization."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import (
    GPU,
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

_IDLE: Final = (
    "a larger batch, or what bound the run in the block `where the time went` of leadline show; "
    "usually the GPU waits for data, for the host's Python, or for other ranks"
)
_FLUCTUATING: Final = (
    "prefetching and pinned memory, so that the next batch is there when a step ends; "
    "usually the GPU waits between its steps, for data, checkpoints or evaluation on the host"
)


@dataclass(slots=True)
class _Gpus:
    gauges: DeviceMetrics
    phases: PhaseTimes = field(default_factory=PhaseTimes)


class LowGPUUtilization(Rule, frozen=True, kw_only=True):
    """Fires when a GPU is idle most of the time, or falls idle again and again.

    Why it matters:
        An idle GPU costs as much as a busy one.
    How it decides:
        Over the last ``window`` samples ``p95 < threshold_p95`` (idle), or else ``p5 < threshold_p5`` (fluctuating);
        percentiles linear between neighbours; the first ``patience`` samples are passed over. Each GPU by itself.
        The finding names the phases, and the operators in detailed windows, of the samples below ``threshold_p95``, or
        below ``threshold_p5``.
    Not a number:
        What could not be read has no sample; nothing is judged before the window is full.
    Blind spots:
        The utilization says that a kernel ran, not how much of the GPU it used: a GPU at 100 % may do little.
        Pauses shorter than the driver's own averaging (up to a second) do not show.
    Args:
        threshold_p95: Percent of a GPU, 0 to 100.
        threshold_p5: Percent of a GPU, 0 to 100.
        patience: Samples passed over at the start, >= 0.
        window: Samples per percentile, >= 1.
    Source:
        SageMaker developer guide, "LowGPUUtilization".
    """

    threshold_p95: Annotated[float, msgspec.Meta(ge=0, le=100)] = 70.0
    threshold_p5: Annotated[float, msgspec.Meta(ge=0, le=100)] = 10.0
    patience: Annotated[int, msgspec.Meta(ge=0)] = 1000
    window: Annotated[int, msgspec.Meta(ge=1)] = 500

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(GPU,), phases=WATCHED, operators=True)

    def remember(self, memory: Any, window: Window) -> _Gpus:
        gpus: _Gpus = memory or _Gpus(DeviceMetrics(self.patience, self.window))
        gpus.gauges.add(window.samples(GPU.kind, GPU.metric))
        gpus.phases.add_window(window)
        return gpus

    def evaluate(self, window: Window) -> Verdict:
        gpus: _Gpus = window.memory
        full = gpus.gauges.full()
        found = []
        for sensor, gauge in full.items():
            p95, p5 = percentile(gauge.values, 95), percentile(gauge.values, 5)
            if p95 < self.threshold_p95 or p5 < self.threshold_p5:
                found.append((sensor, gauge, p95, p5))
        if found:
            return self._fired(gpus, found)
        return Clear() if full else Undecided(too_few([gpus.gauges], NO_GPU))

    def _fired(self, gpus: _Gpus, found: list[tuple[Sensor, DeviceMetric, float, float]]) -> Fired:
        sensor, gauge, p95, p5 = min(found, key=lambda each: (each[2], each[3], each[0]))
        is_idle = p95 < self.threshold_p95
        limit = self.threshold_p95 if is_idle else self.threshold_p5
        times = [at for at, value in zip(gauge.times_ns, gauge.values, strict=True) if value <= limit]
        step_ns = (gauge.times_ns[-1] - gauge.times_ns[0]) // max(1, len(gauge.times_ns) - 1)
        meanwhile = gpus.phases.meanwhile(times, step_ns or 1)
        seen = (
            f"{device_name(sensor)} was at most at {p95:.0f} % in 95 % of the last {self.window:,} samples"
            if is_idle
            else f"{device_name(sensor)} fell to {p5:.0f} % or less in 5 % of the last {self.window:,} samples"
        )
        return Fired(
            f"{seen}{and_more(len(found) - 1, 'GPU')}{meanwhile.spoken}",
            tensors=tuple(device_name(each) for each, *_ in found),
            evidence={"p95": p95, "p5": p5, "kind": "idle" if is_idle else "fluctuating", **meanwhile.evidence},
            suggestion=_IDLE if is_idle else _FLUCTUATING,
        )
