"""The rule memory_growth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import MetricNeed, Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.robust import mann_kendall, median
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import device_name

if TYPE_CHECKING:
    from leadline.reader.window import Window

_JOB: Final = MetricNeed("process", "rss_bytes", "job")
_DEVICE: Final = MetricNeed("gpu", "memory_used_bytes")
_MOST_POINTS: Final = 240
_FEWEST_POINTS: Final = 10
_FEWEST_STEPS: Final = 100
_P: Final = 0.001
"""How likely memory without a trend may be to look so."""
_STILL: Final = 0.5
"""The slope of the last part, against that of all, above which the growth still goes on."""


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
    """In all, over the second half."""
    level: float
    steps: int


@dataclass(slots=True)
class _Course:
    """The memory of a sensor, at moments that lie ever further apart."""

    points: list[_Point] = field(default_factory=list)
    stride: int = 1
    seen: int = 0
    growth: _Growth | None = None
    """As of the last point; None: too little was seen."""

    def add(self, point: _Point) -> None:
        self.seen += 1
        if (self.seen - 1) % self.stride:
            return
        self.points.append(point)
        if len(self.points) > _MOST_POINTS:
            self.points = self.points[::2]
            self.stride *= 2
        self.growth = _growth(self.second_half())

    def second_half(self) -> list[_Point]:
        ends_ns = self.points[0].time_ns + self.points[-1].time_ns
        return [each for each in self.points if 2 * each.time_ns >= ends_ns]


class MemoryGrowth(Rule, frozen=True, kw_only=True):
    """Fires when the memory of the job's processes, or of a device, grows steadily as the training goes on.

    Why it matters:
        A training that keeps something of every step (a loss with its graph, outputs for a metric, a cache without a
        bound) is killed for want of memory after hours, and often takes the node's other jobs with it.
    How it decides:
        Over the second half of the time since the first step the median of the slopes between all pairs of points
        (Theil and Sen; at most 240 points, evenly spaced in time) is more than ``percent`` of the memory at the start
        of that half per 100 steps, and comes to more than ``bytes`` over it. It must be a trend (Mann and Kendall, p <
        0.001) that still goes on: the slope of the last half of these points is at least half of it. Judged from 100
        steps and 10 points in that half on. The job's resident memory, and each device by itself.
    Not a number:
        What could not be read has no point.
    Blind spots:
        A cache that fills on purpose looks the same until it is full. A leak that ends each epoch goes up and
        down. PyTorch keeps freed device memory, so a device shows jumps, whose median slope is 0. The resident memory
        counts what several processes share once for each.
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

    def remember(self, memory: Any, window: Window) -> dict[Sensor, _Course]:
        courses: dict[Sensor, _Course] = memory or {}
        if window.scan is None or window.scan.last_step < 0:
            return courses
        for need in (_JOB, _DEVICE):
            for each in window.samples(need.kind, need.metric, need.device):
                point = _Point(int(each.times_ns[-1]), window.scan.last_step, float(each.values[-1]))
                courses.setdefault(each.sensor, _Course()).add(point)
        return courses

    def evaluate(self, window: Window) -> Verdict:
        judged = {sensor: each.growth for sensor, each in sorted(window.memory.items()) if each.growth is not None}
        grown = {
            sensor: each for sensor, each in judged.items() if each.percent > self.percent and each.bytes > self.bytes
        }
        if grown:
            return self._fired(grown)
        return Clear() if judged else Undecided(f"fewer than {_FEWEST_STEPS} steps with the job's memory read beside")

    def _fired(self, grown: dict[Sensor, _Growth]) -> Fired:
        worst = max(grown, key=lambda each: (grown[each].percent, each))
        growth = grown[worst]
        name = "the job's memory" if worst.kind == "process" else f"the memory of {device_name(worst)}"
        return Fired(
            f"{name} grows by {growth.percent:.2g} % of {growth.level / 1e6:,.0f} MB per 100 steps, by "
            f"{growth.bytes / 1e6:,.0f} MB over the last {growth.steps:,} steps{and_more(len(grown) - 1, 'memory')}",
            tensors=tuple(device_name(each) for each in sorted(grown, key=lambda each: -grown[each].percent)),
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
    """None: too little was seen."""
    steps = points[-1].step - points[0].step
    if len(points) < _FEWEST_POINTS or steps < _FEWEST_STEPS:
        return None
    level = median([each.bytes for each in points[: len(points) // 5 + 1]])
    slope = _slope(points)
    is_trend = mann_kendall([each.bytes for each in points]).p_of_rising() < _P
    if slope <= 0 or level <= 0 or not is_trend or _slope(points[len(points) // 2 :]) < _STILL * slope:
        return _Growth(0.0, 0.0, level, steps)
    return _Growth(100.0 * slope * 100 / level, slope * steps, level, steps)


def _slope(points: list[_Point]) -> float:
    """Bytes a step: the median over all pairs of points at different steps."""
    import numpy as np

    steps = np.array([each.step for each in points], np.float64)
    sizes = np.array([each.bytes for each in points], np.float64)
    first, second = np.triu_indices(len(points), 1)
    apart = steps[second] - steps[first]
    slopes = (sizes[second] - sizes[first])[apart > 0] / apart[apart > 0]
    return float(np.median(slopes)) if slopes.size else 0.0
