"""The rule memory_growth."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import MetricNeed, Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.messages import and_more
from leadline.rules.robust import mann_kendall
from leadline.rules.rule import Rule
from leadline.rules.system.system_rule import device_name

if TYPE_CHECKING:
    from leadline.reader.window import Window

_JOB: Final = MetricNeed("process", "rss_bytes", "job")
_DEVICE: Final = MetricNeed("gpu", "memory_used_bytes")
_MAX_POINTS: Final = 240
_MIN_POINTS: Final = 10
_MIN_STEPS: Final = 100
_P: Final = 0.001
"""The significance level of a trend."""
_ONGOING: Final = 0.5
"""The slope of the last part, relative to the slope of all points, above which the growth is ongoing."""


@dataclass(frozen=True, slots=True)
class _Point:
    time_ns: int
    step: int
    bytes: float


@dataclass(frozen=True, slots=True)
class _Growth:
    percent: float
    """Per 100 steps."""
    bytes: float
    """The total over the second half."""
    level: float
    steps: int


@dataclass(slots=True)
class _MemoryCurve:
    """The memory of a device or of the job, sampled at growing intervals."""

    points: list[_Point] = field(default_factory=list)
    stride: int = 1
    seen: int = 0
    growth: _Growth | None = None
    """The growth up to the last point; None: too few points."""

    def add(self, point: _Point) -> None:
        self.seen += 1
        if (self.seen - 1) % self.stride:
            return
        self.points.append(point)
        if len(self.points) > _MAX_POINTS:
            self.points = self.points[::2]
            self.stride *= 2
        self.growth = _growth(self.second_half())

    def second_half(self) -> list[_Point]:
        ends_ns = self.points[0].time_ns + self.points[-1].time_ns
        return [point for point in self.points if 2 * point.time_ns >= ends_ns]


class MemoryGrowth(Rule, frozen=True, kw_only=True):
    """Fires when the memory of the job's processes, or of a device, grows steadily during the training.

    Why it matters:
        A training that keeps something from every step (a loss with its graph, outputs for a metric, an unbounded
        cache) runs out of memory after hours, and often takes other jobs of the node down with it.
    How it decides:
        Evaluates the second half of the time since the first step. Fires if the median slope between all pairs of
        points (Theil and Sen; at most 240 points, evenly spaced in time) is more than ``percent`` of the memory at
        the start of that half per 100 steps, and amounts to more than ``bytes`` over that half. It must be a trend
        (Mann and Kendall, p < 0.001) that is ongoing: the slope of the last half of these points is at least half
        of it. Requires 100 steps and 10 points in that half. The job's resident memory and each device are
        evaluated separately.
    Not a number:
        A metric that cannot be read has no point.
    Blind spots:
        A cache that fills up on purpose looks the same until it is full. A leak that is freed at the end of each
        epoch goes up and down. PyTorch keeps freed device memory in its cache, so the memory of a device grows in
        jumps, with a median slope of 0. Resident memory counts pages shared by several processes once for each of
        them.
    Args:
        percent: Percent per 100 steps, > 0.
        bytes: Bytes over the second half of the run, >= 0.
    Source:
        Ours; Theil 1950, Sen 1968, Mann 1945.
    """

    percent: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    bytes: Annotated[float, msgspec.Meta(ge=0)] = 100e6

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, metrics=(_JOB, _DEVICE))

    def remember(self, memory: Any, window: Window) -> dict[Sensor, _MemoryCurve]:
        curves: dict[Sensor, _MemoryCurve] = memory or {}
        if window.scan is None or window.scan.last_step < 0:
            return curves
        for need in (_JOB, _DEVICE):
            for batch in window.samples(need.kind, need.metric, need.device):
                point = _Point(int(batch.times_ns[-1]), window.scan.last_step, float(batch.values[-1]))
                curves.setdefault(batch.sensor, _MemoryCurve()).add(point)
        return curves

    def evaluate(self, window: Window) -> Verdict:
        judged = {sensor: curve.growth for sensor, curve in sorted(window.memory.items()) if curve.growth is not None}
        grown = {
            sensor: growth
            for sensor, growth in judged.items()
            if growth.percent > self.percent and growth.bytes > self.bytes
        }
        if grown:
            return self._fired(grown)
        return Clear() if judged else Undecided(f"fewer than {_MIN_STEPS} steps with samples of the job's memory")

    def _fired(self, grown: dict[Sensor, _Growth]) -> Fired:
        worst = max(grown, key=lambda sensor: (grown[sensor].percent, sensor))
        growth = grown[worst]
        name = "the job's memory" if worst.kind == "process" else f"the memory of {device_name(worst)}"
        return Fired(
            f"{name} grows by {growth.percent:.2g} % of {growth.level / 1e6:,.0f} MB per 100 steps, by "
            f"{growth.bytes / 1e6:,.0f} MB over the last {growth.steps:,} steps{and_more(len(grown) - 1, 'memory')}",
            tensors=tuple(device_name(device) for device in sorted(grown, key=lambda sensor: -grown[sensor].percent)),
            evidence={
                "percent_per_100_steps": growth.percent,
                "bytes": growth.bytes,
                "bytes_at_start": growth.level,
                "steps": growth.steps,
                "percent": self.percent,
            },
            suggestion="float() or detach() what is kept from step to step (losses, outputs), and bounds for caches; "
            "usually a list of losses keeps the graph of each",
        )


def _growth(points: list[_Point]) -> _Growth | None:
    """Return the growth over some points; None if there are too few."""
    steps = points[-1].step - points[0].step
    if len(points) < _MIN_POINTS or steps < _MIN_STEPS:
        return None
    level = median([point.bytes for point in points[: len(points) // 5 + 1]])
    slope = _slope(points)
    is_trend = mann_kendall([point.bytes for point in points]).p_of_rising() < _P
    if slope <= 0 or level <= 0 or not is_trend or _slope(points[len(points) // 2 :]) < _ONGOING * slope:
        return _Growth(0.0, 0.0, level, steps)
    return _Growth(100.0 * slope * 100 / level, slope * steps, level, steps)


def _slope(points: list[_Point]) -> float:
    """Return bytes per step: the median slope of all pairs of points at different steps."""
    import numpy as np

    steps = np.array([point.step for point in points], np.float64)
    sizes = np.array([point.bytes for point in points], np.float64)
    first, second = np.triu_indices(len(points), 1)
    distances = steps[second] - steps[first]
    slopes = (sizes[second] - sizes[first])[distances > 0] / distances[distances > 0]
    return float(np.median(slopes)) if slopes.size else 0.0
