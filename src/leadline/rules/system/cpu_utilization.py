"""The rule cpu_utilization."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.errors import ConfigurationError
from leadline.reader.interval import Sensor
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import CPU, SCAN_SECONDS, DeviceMetric, DeviceMetrics, percentile, too_few
from leadline.rules.system.phase_times import WATCHED, PhaseTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Nodes:
    gauges: DeviceMetrics
    phases: PhaseTimes = field(default_factory=PhaseTimes)


class CPUUtilization(Rule, frozen=True, kw_only=True):
    """Fires when the CPU of a node is full, or hardly used at all.

    Why it matters:
        A full CPU slows data loading and the launching of kernels; an idle one is paid for.
    How it decides:
        Over the last ``window`` samples of a node ``p95 > high_threshold``, or ``p95 < low_threshold`` (the
        percentile linear between neighbours); the first ``patience`` samples are passed over. 100 % is all cores that
        the job may use. Each node by itself. The finding names the phases, and what
        detailed windows recorded of the operators, of that time.
    Not a number:
        What could not be read has no sample; nothing is judged before the window is full.
    Blind spots:
        All cores together are judged, and everything that runs on them counts, also what is not of the job. On a node
        that computes on its CPU a full CPU is how it should be.
    Args:
        high_threshold: Percent of all cores, 0 to 100.
        low_threshold: Percent of all cores, 0 to 100, <= high_threshold.
        window: Samples per percentile, >= 1.
        patience: Samples passed over at the start, >= 0.
    Source:
        SageMaker developer guide, "CPUUtilization" and the summary of the profiling report.
    """

    high_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 95.0
    low_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 5.0
    window: Annotated[int, msgspec.Meta(ge=1)] = 500
    patience: Annotated[int, msgspec.Meta(ge=0)] = 100

    def check(self) -> None:
        if self.low_threshold > self.high_threshold:
            raise ConfigurationError("cpu_utilization: low_threshold must be <= high_threshold")

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(CPU,), phases=WATCHED, operators=True)

    def remember(self, memory: Any, window: Window) -> _Nodes:
        nodes: _Nodes = memory or _Nodes(DeviceMetrics(self.patience, self.window))
        nodes.gauges.add(window.samples(CPU.kind, CPU.metric, CPU.device))
        nodes.phases.add_window(window)
        return nodes

    def evaluate(self, window: Window) -> Verdict:
        nodes: _Nodes = window.memory
        full = {sensor: (percentile(gauge.values, 95), gauge) for sensor, gauge in nodes.gauges.full().items()}
        found = [
            (sensor, p95, gauge)
            for sensor, (p95, gauge) in full.items()
            if not self.low_threshold <= p95 <= self.high_threshold
        ]
        if found:
            return self._fired(nodes, found)
        return Clear() if full else Undecided(too_few([nodes.gauges], "no CPU was read"))

    def _fired(self, nodes: _Nodes, found: list[tuple[Sensor, float, DeviceMetric]]) -> Fired:
        sensor, p95, gauge = max(found, key=lambda each: (each[1], each[0]))
        step_ns = (gauge.times_ns[-1] - gauge.times_ns[0]) // max(1, len(gauge.times_ns) - 1)
        meanwhile = nodes.phases.meanwhile(gauge.times_ns, step_ns or 1)
        is_high = p95 > self.high_threshold
        seen = "above" if is_high else "below"
        limit = self.high_threshold if is_high else self.low_threshold
        return Fired(
            f"the CPU of {sensor.node} reaches {p95:.0f} % (95th percentile of {self.window:,} samples), {seen} "
            f"{limit:g} %{and_more(len(found) - 1, 'node')}{meanwhile.spoken}",
            tensors=tuple(each.node for each, _, _ in found),
            evidence={"p95": p95, "limit": limit, **meanwhile.evidence},
            suggestion=(
                "fewer data loader workers or threads than cores, or more cores; "
                "usually too many processes share the cores"
                if is_high
                else "a smaller machine, or more data loader workers; usually the node waits, or has more than it needs"
            ),
        )
