"""The rule hardware_utilization."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.errors import ConfigurationError
from leadline.reader.interval import Sensor
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import (
    CPU,
    GPU,
    GPU_MEMORY,
    IOWAIT,
    MEMORY,
    NETWORK,
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

_RESOURCES: Final = {
    "CPU": CPU,
    "GPU": GPU,
    "memory": MEMORY,
    "GPU memory": GPU_MEMORY,
    "I/O wait": IOWAIT,
    "network": NETWORK,
}


@dataclass(slots=True)
class _Machine:
    gauges: dict[str, DeviceMetrics]
    phases: PhaseTimes = field(default_factory=PhaseTimes)


@dataclass(frozen=True, slots=True)
class _Reading:
    resource: str
    sensor: Sensor
    p95: float
    gauge: DeviceMetric

    @property
    def spoken(self) -> str:
        return f"{self.resource} of {device_name(self.sensor)} {self.p95:.0f} %"


class HardwareUtilization(Rule, frozen=True, kw_only=True):
    """Fires when some part of the machine is saturated, or an accelerator is idle.

    Why it matters:
        The saturated part is what a faster training needs more of; an idle accelerator is what it needs less of.
    How it decides:
        Over the last ``window`` samples ``p95 > high_threshold`` of CPU, GPU, memory, GPU memory, I/O wait or network,
        or ``p95 < low_threshold`` of a GPU (percentiles linear between neighbours); the first ``patience`` samples are
        passed over. Each device by itself. The finding names the phases, and what
        detailed windows recorded of the operators, of that time.
    Not a number:
        What could not be read has no sample; nothing is judged before a window is full.
    Blind spots:
        The network is judged only where its utilization in percent is measured: the speed of a link is seldom known.
        A GPU at 100 % is how a training should be, and fires all the same: it says what the bound is.
    Args:
        high_threshold: Percent, 0 to 100.
        low_threshold: Percent of a GPU, 0 to 100, <= high_threshold.
        window: Samples per percentile, >= 1.
        patience: Samples passed over at the start, >= 0.
    Source:
        SageMaker developer guide, "HardwareUtilization".
    """

    high_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 95.0
    low_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 20.0
    window: Annotated[int, msgspec.Meta(ge=1)] = 500
    patience: Annotated[int, msgspec.Meta(ge=0)] = 100

    def check(self) -> None:
        if self.low_threshold > self.high_threshold:
            raise ConfigurationError("hardware_utilization: low_threshold must be <= high_threshold")

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=tuple(_RESOURCES.values()), phases=WATCHED, operators=True)

    def remember(self, memory: Any, window: Window) -> _Machine:
        machine: _Machine = memory or _Machine({name: DeviceMetrics(self.patience, self.window) for name in _RESOURCES})
        for name, need in _RESOURCES.items():
            machine.gauges[name].add(window.samples(need.kind, need.metric, need.device))
        machine.phases.add_window(window)
        return machine

    def evaluate(self, window: Window) -> Verdict:
        machine: _Machine = window.memory
        readings = [
            _Reading(name, sensor, percentile(gauge.values, 95), gauge)
            for name, gauges in machine.gauges.items()
            for sensor, gauge in gauges.full().items()
        ]
        saturated = sorted((each for each in readings if each.p95 > self.high_threshold), key=_worst_first)
        idle = [each for each in readings if each.resource == "GPU" and each.p95 < self.low_threshold]
        if saturated:
            return self._fired(machine, saturated, f"above {self.high_threshold:g} %", _SATURATED)
        if idle:
            return self._fired(machine, idle, f"below {self.low_threshold:g} %", _IDLE)
        return Clear() if readings else Undecided(too_few([machine.gauges["CPU"]], "the machine was not read"))

    def _fired(self, machine: _Machine, found: list[_Reading], limit: str, suggestion: str) -> Fired:
        gauge = found[0].gauge
        step_ns = (gauge.times_ns[-1] - gauge.times_ns[0]) // max(1, len(gauge.times_ns) - 1)
        meanwhile = machine.phases.meanwhile(gauge.times_ns, step_ns or 1)
        return Fired(
            f"{found[0].spoken}, {limit} (95th percentile of {self.window:,} samples)"
            f"{and_more(len(found) - 1, 'part')}{meanwhile.spoken}",
            tensors=tuple(dict.fromkeys(device_name(each.sensor) for each in found)),
            evidence={
                "p95": {
                    each.spoken.rpartition(" of ")[0] + " of " + device_name(each.sensor): each.p95 for each in found
                },
                **meanwhile.evidence,
            },
            suggestion=suggestion,
        )


_SATURATED: Final = (
    "more of what is full, or less work for it; usually that part bounds the training, and the others wait for it"
)
_IDLE: Final = (
    "a larger batch, faster input, or a smaller accelerator; usually the accelerator waits for the rest of the machine"
)


def _worst_first(reading: _Reading) -> tuple[float, str, Sensor]:
    return -reading.p95, reading.resource, reading.sensor
