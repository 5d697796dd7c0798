"""GPUs that do little while something of their node's host is busy: what cpu_bottleneck and io_bottleneck count."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from leadline.reader.interval import Sensor
from leadline.records.needs import MetricNeed
from leadline.rules.system.device_metrics import GPU, device_name
from leadline.rules.system.phase_times import PhaseOverlap, PhaseTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window

FEWEST: Final = 10
"""Samples that must have come after those that are passed over."""
_MOST_TIMES: Final = 5_000


@dataclass(slots=True)
class StarvationCounts:
    """The samples of one GPU at whose moments the host was sampled too."""

    seen: int = 0
    judged: int = 0
    """Those after the first ``patience``."""
    bad: int = 0
    times_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))
    """When it was so."""


@dataclass(slots=True)
class StarvedGpuRule:
    """How often each GPU did little while its host was busy.

    Args:
        host: What the host is asked.
        host_above: Beyond what it is busy, percent.
        gpu_below: Below what a GPU does little, percent.
        patience: Samples of each GPU that are passed over.
    """

    host: MetricNeed
    host_above: float
    gpu_below: float
    patience: int
    tallies: dict[Sensor, StarvationCounts] = field(default_factory=dict)
    phases: PhaseTimes = field(default_factory=PhaseTimes)
    step_ns: int = 0
    """From one sample to the next."""

    def add(self, window: Window) -> None:
        """Take in what came."""
        hosts = {
            each.sensor.node: dict(zip(each.times_ns.tolist(), each.values.tolist(), strict=True))
            for each in window.samples(self.host.kind, self.host.metric, self.host.device)
        }
        for each in window.samples(GPU.kind, GPU.metric):
            host = hosts.get(each.sensor.node, {})
            tally = self.tallies.setdefault(each.sensor, StarvationCounts())
            times = each.times_ns.tolist()
            self.step_ns = max((after - before for before, after in pairwise(times)), default=self.step_ns)
            for time_ns, value in zip(times, each.values.tolist(), strict=True):
                if time_ns in host:
                    self._count(tally, time_ns, is_bad=value < self.gpu_below and host[time_ns] > self.host_above)
        self.phases.add_window(window)

    def _count(self, tally: StarvationCounts, time_ns: int, *, is_bad: bool) -> None:
        tally.seen += 1
        if tally.seen > self.patience:
            tally.judged += 1
            tally.bad += is_bad
            if is_bad:
                tally.times_ns.append(time_ns)

    def judged(self) -> dict[Sensor, StarvationCounts]:
        """Those of which enough was seen."""
        return {sensor: each for sensor, each in self.tallies.items() if each.judged >= FEWEST}

    def worst(self, threshold: float) -> list[tuple[str, float, StarvationCounts]]:
        """Devices of which more than a percentage of the samples were bad: name, percent, tally; the worst first."""
        found = [(device_name(sensor), 100.0 * each.bad / each.judged, each) for sensor, each in self.judged().items()]
        return sorted((each for each in found if each[1] > threshold), key=lambda each: (-each[1], each[0]))

    def meanwhile(self, tally: StarvationCounts) -> PhaseOverlap:
        """What the training did at the time of the bad samples."""
        return self.phases.meanwhile(tally.times_ns, self.step_ns or 1)
