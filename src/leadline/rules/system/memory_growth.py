"""The rule memory_growth."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar, Final

from leadline.records.names import PROCESS_MEMORY
from leadline.rules import Advice, Clear, Fired, Needs, Rule, TensorNeed, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat, PositiveFloat
from leadline.rules.messages import and_more, fired, too_few
from leadline.rules.robust import mann_kendall

_EVERY: Final = 10
_MAX_POINTS: Final = 240
_MIN_POINTS: Final = 8
_MIN_LATE_POINTS: Final = 4
"""Points of the second half that a clear verdict requires."""
_MIN_STEPS: Final = 100
_MIN_SECONDS: Final = 60.0
_P: Final = 0.001
"""The significance level of a trend."""
_P_SUSPECTED: Final = 0.05
_ONGOING: Final = 0.5
"""The slope of the last part, relative to the slope of all points, above which the growth is ongoing."""
_SUSPECTED: Final = 0.25
"""The share of ``bytes`` from which a growth is suspected."""

_Key = tuple[str, str]
_ADVICE: Final = Advice(
    "{to_number} what is kept from step to step (losses, outputs), and bounds for caches; usually a list of losses "
    "{kept_graphs}"
)


@dataclass(frozen=True, slots=True)
class _Point:
    step: int
    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True)
class _Growth:
    """The growth over the second half of the steps."""

    points: int
    steps: int
    seconds: float
    level: float
    """Bytes at the start of the half."""
    slope: float
    """Bytes per step."""
    p: float
    """The p-value of a rising trend."""
    is_ongoing: bool

    @property
    def bytes(self) -> float:
        return self.slope * self.steps

    @property
    def percent_per_100_steps(self) -> float:
        return 100.0 * self.slope * 100 / self.level if self.level > 0 else 0.0

    @property
    def percent_per_minute(self) -> float:
        return 100.0 * self.bytes * 60 / self.seconds / self.level if self.level > 0 and self.seconds > 0 else 0.0


@dataclass(slots=True)
class _MemoryCurve:
    """The memory of a process or of its device, at steps that are further and further apart."""

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
        if len(self.points) >= _MIN_POINTS:
            self.growth = _growth(self.second_half())

    def second_half(self) -> list[_Point]:
        ends = self.points[0].step + self.points[-1].step
        return [point for point in self.points if 2 * point.step >= ends]


class MemoryGrowth(Rule, frozen=True, kw_only=True):
    """Fires when the memory of a training process, or its memory on a device, grows steadily during the training.

    Why it matters:
        A training that keeps something from every step (a loss with its graph, outputs for a metric, an unbounded
        cache) runs out of memory after hours, and often takes other jobs of the node down with it.
    How it decides:
        A training process reads its resident memory, and what it has allocated on its device, every 10 steps. The
        rule evaluates the second half of the steps so far, without the largest rise between two neighbouring points,
        since a compilation or an evaluation takes memory once. Fires if the median slope between all pairs of points
        (Theil and Sen; at most 240 points) is more than ``percent`` of the memory at the start of that half per 100
        steps or per minute, and amounts to more than ``bytes`` over that half. It must be a trend (Mann and Kendall,
        p < 0.001) that is ongoing: the slope of the last half of these points is at least half of it. Requires 8
        points in that half, over 100 steps or 60 seconds. Undecided if such a trend amounts to a quarter of ``bytes``
        so far. Each process and device is evaluated separately.
    Not a number:
        Memory that cannot be read has no point.
    Blind spots:
        A cache or replay buffer that fills up on purpose looks the same until it is full. A leak that is freed at the
        end of each epoch goes up and down. Other processes of the job, such as data loader workers, are not
        evaluated: the job memory (RSS) is a system metric. Boosted trees do not record their memory.
    Args:
        percent: Percent per 100 steps or per minute, > 0.
        bytes: Bytes over the second half of the steps, >= 0.
    Source:
        Ours; Theil 1950, Sen 1968, Mann 1945.
    """

    spans_trainings: ClassVar[bool] = True

    percent: PositiveFloat = 2.0
    bytes: NonNegativeFloat = 100e6

    def needs(self) -> Needs:
        names = "|".join(PROCESS_MEMORY)
        return Needs((TensorNeed("checks", f"^({names})$", statistics=("value",), modes=("train",), every=_EVERY),))

    @property
    def least_observations(self) -> int:
        return _MIN_POINTS

    def remember(self, memory: Any, window: Window) -> dict[_Key, _MemoryCurve]:
        curves: dict[_Key, _MemoryCurve] = memory or {}
        for reading in window.readings("value"):
            if reading.value == reading.value:
                curve = curves.setdefault((reading.worker, reading.tensor), _MemoryCurve())
                curve.add(_Point(reading.mode_step, reading.time_ns / 1e9, reading.value))
        return curves

    def evaluate(self, window: Window) -> Verdict:
        curves: dict[_Key, _MemoryCurve] = window.memory
        known = {key: curve.growth for key, curve in sorted(curves.items()) if curve.growth is not None}
        growths = {key: growth for key, growth in known.items() if growth.points >= _MIN_LATE_POINTS}
        grown = {key: growth for key, growth in growths.items() if self._is_excessive(growth)}
        if grown:
            return self._fired(grown)
        if not growths:
            points = max((curve.seen for curve in curves.values()), default=0)
            return too_few(points, max(_MIN_POINTS, points + 1), "readings of the memory")
        suspects = [growth for growth in growths.values() if self._is_suspected(growth)]
        if suspects:
            worst = max(suspects, key=lambda growth: growth.bytes)
            why = f"the memory grew by {worst.bytes / 1e6:,.0f} MB over the last {worst.steps:,} steps"
            return Undecided(why, stage="suspected")
        return Clear()

    def _is_fast(self, growth: _Growth) -> bool:
        return growth.is_ongoing and max(growth.percent_per_100_steps, growth.percent_per_minute) > self.percent

    def _is_excessive(self, growth: _Growth) -> bool:
        is_long = growth.steps >= _MIN_STEPS or growth.seconds >= _MIN_SECONDS
        is_sure = growth.points >= _MIN_POINTS and growth.p < _P
        return is_sure and is_long and self._is_fast(growth) and growth.bytes > self.bytes

    def _is_suspected(self, growth: _Growth) -> bool:
        return growth.p < _P_SUSPECTED and self._is_fast(growth) and growth.bytes > _SUSPECTED * self.bytes

    def _fired(self, grown: dict[_Key, _Growth]) -> Fired:
        worker, tensor = max(grown, key=lambda key: (grown[key].percent_per_100_steps, key))
        growth = grown[worker, tensor]
        return fired(
            f"the {PROCESS_MEMORY[tensor]} of {worker} grows by {growth.percent_per_100_steps:.2g} % of "
            f"{growth.level / 1e6:,.0f} MB per 100 steps, by {growth.bytes / 1e6:,.0f} MB over the last "
            f"{growth.steps:,} steps{and_more(len(grown) - 1, 'memory')}",
            *(name for _, name in sorted(grown)),
            advice=_ADVICE,
            evidence={
                "percent_per_100_steps": growth.percent_per_100_steps,
                "percent_per_minute": growth.percent_per_minute,
                "bytes": growth.bytes,
                "bytes_at_start": growth.level,
                "steps": growth.steps,
                "percent": self.percent,
            },
            worker=worker,
        )


def _growth(points: list[_Point]) -> _Growth:
    """Return the growth over some points, without its largest single rise."""
    points = _without_largest_rise(points)
    level = median([point.bytes for point in points[: len(points) // 5 + 1]])
    slope = _slope(points)
    is_ongoing = slope > 0 and _slope(points[len(points) // 2 :]) >= _ONGOING * slope
    p = mann_kendall([point.bytes for point in points]).p_of_rising()
    steps, seconds = points[-1].step - points[0].step, points[-1].seconds - points[0].seconds
    return _Growth(len(points), steps, seconds, level, slope, p, is_ongoing)


def _without_largest_rise(points: list[_Point]) -> list[_Point]:
    """Return points of which those after the largest rise between neighbours are lower by it.

    A compilation, an evaluation or another phase takes memory once; what leaks rises again and again.
    """
    rises = [after.bytes - before.bytes for before, after in pairwise(points)]
    largest = max(rises, default=0.0)
    if largest <= 0:
        return points
    after = rises.index(largest) + 1
    return [*points[:after], *(replace(point, bytes=point.bytes - largest) for point in points[after:])]


def _slope(points: list[_Point]) -> float:
    """Return bytes per step: the median slope of all pairs of points at different steps."""
    import numpy as np

    steps = np.array([point.step for point in points], np.float64)
    sizes = np.array([point.bytes for point in points], np.float64)
    first, second = np.triu_indices(len(points), 1)
    distances = steps[second] - steps[first]
    slopes = (sizes[second] - sizes[first])[distances > 0] / distances[distances > 0]
    return float(np.median(slopes)) if slopes.size else 0.0
