"""Base of the rules cpu_bottleneck and io_bottleneck: GPUs that are idle while their host is busy."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.reader.interval import Sensor
from leadline.records.formatting import exact
from leadline.rules import Advice, Clear, Fired, MetricNeed, Verdict, Window
from leadline.rules.messages import fired, too_few
from leadline.rules.system.phase_times import PhaseTimes
from leadline.rules.system.system_rule import GPU, SystemRule, device_name, without_gpu

_MIN_SAMPLES: Final = 10
"""Samples that are required after the skipped ones."""
_MAX_TIMES: Final = 5_000


@dataclass(slots=True)
class StarvationCounts:
    """Counts of the samples of one GPU that have a sample of the host at the same time."""

    seen: int = 0
    judged: int = 0
    """Samples after the first ``patience``."""
    bad: int = 0
    """Samples with an idle GPU and a busy host."""
    times_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_TIMES))
    """The times of the latest bad samples."""


@dataclass(slots=True)
class StarvationMemory:
    """Counts of all GPUs, and the phases of the training at that time."""

    counts: dict[Sensor, StarvationCounts] = field(default_factory=dict)
    phases: PhaseTimes = field(default_factory=PhaseTimes)
    interval_ns: int = 0
    """The time between two samples."""

    def judged(self) -> dict[Sensor, StarvationCounts]:
        """Return the GPUs with enough samples."""
        return {sensor: counts for sensor, counts in self.counts.items() if counts.judged >= _MIN_SAMPLES}

    def starved(self, threshold: float) -> list[tuple[str, float, StarvationCounts]]:
        """Return the GPUs with more than ``threshold`` percent bad samples: name, percent, counts; the worst first."""
        percents = [
            (device_name(sensor), 100.0 * counts.bad / counts.judged, counts)
            for sensor, counts in self.judged().items()
        ]
        return sorted((gpu for gpu in percents if gpu[1] > threshold), key=lambda gpu: (-gpu[1], gpu[0]))


class GPUStarvationRule(SystemRule, frozen=True, kw_only=True):
    """A rule that fires when a GPU is idle while a metric of its host is high, in too many samples.

    Attributes:
        host_metric: The metric of the host.
        suggestion: The advice of its findings.
    """

    explains: ClassVar[tuple[str, ...]] = ("low_gpu_utilization", "batch_size", "hardware_utilization")
    has_phases: ClassVar[bool] = True
    host_metric: ClassVar[MetricNeed]
    suggestion: ClassVar[Advice]

    if TYPE_CHECKING:  # parameters of each rule, with their own bounds, defaults and order
        threshold: float
        gpu_threshold: float
        patience: int

    @property
    def host_threshold(self) -> float:
        """Percent of the host metric above which the host is busy."""
        raise NotImplementedError

    @property
    def host_condition(self) -> str:
        """The state of a busy host, as findings describe it."""
        raise NotImplementedError

    def remember(self, memory: Any, window: Window) -> StarvationMemory:
        known: StarvationMemory = memory or StarvationMemory()
        need = self.host_metric
        hosts = {
            batch.sensor.node: dict(zip(batch.times_ns.tolist(), batch.values.tolist(), strict=True))
            for batch in window.samples(need.kind, need.metric, need.device)
        }
        for batch in window.samples(GPU.kind, GPU.metric):
            host = hosts.get(batch.sensor.node, {})
            counts = known.counts.setdefault(batch.sensor, StarvationCounts())
            times = batch.times_ns.tolist()
            known.interval_ns = max((after - before for before, after in pairwise(times)), default=known.interval_ns)
            for time_ns, value in zip(times, batch.values.tolist(), strict=True):
                if time_ns in host:
                    is_bad = value < self.gpu_threshold and host[time_ns] > self.host_threshold
                    self._count(counts, time_ns, is_bad=is_bad)
        known.phases.add_window(window)
        return known

    def _count(self, counts: StarvationCounts, time_ns: int, *, is_bad: bool) -> None:
        counts.seen += 1
        if counts.seen > self.patience:
            counts.judged += 1
            counts.bad += is_bad
            if is_bad:
                counts.times_ns.append(time_ns)

    def evaluate(self, window: Window) -> Verdict:
        known: StarvationMemory = window.memory
        starved = known.starved(self.threshold)
        if starved:
            return self._fired(known, starved)
        if known.judged():
            return Clear()
        if not known.counts:
            return without_gpu(window)
        seen = max(counts.seen for counts in known.counts.values())
        return too_few(seen, self.patience + _MIN_SAMPLES, "system samples")

    def _fired(self, known: StarvationMemory, starved: list[tuple[str, float, StarvationCounts]]) -> Fired:
        name, percent, counts = starved[0]
        overlap = known.phases.overlap(counts.times_ns, known.interval_ns or 1)
        return fired(
            f"{name} was below {exact(self.gpu_threshold)} % while {self.host_condition} in "
            f"{percent:.0f} % of the samples",
            *(gpu for gpu, _, _ in starved),
            advice=self.suggestion,
            evidence={
                "percent": percent,
                "threshold": self.threshold,
                "samples": counts.judged,
                "bad_samples": counts.bad,
                **overlap.evidence,
            },
            noun="GPU",
            then=overlap.message,
        )
