"""Measurement of the overhead: in total, per step and per capture."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

Part = Literal["tensors", "raw", "forward"]
"""Statistics of parameters and gradients; their raw tensors; everything of a forward pass."""

_MAX_SAMPLES: Final = 8
_MAX_STEPS: Final = 32
_MIN_STEPS: Final = 4
_MAX_COMBINATIONS: Final = 8
_MAX_SWEEPS: Final = 8
_CONVERGED: Final = 1.01
"""Largest ratio between measured and estimated sums at which the sweeps end."""
_MIN_SHARE: Final = 0.01
"""The smallest share of a capture's cost that is attributed to groups captured along with cheaper ones."""

_SAMPLES: Final = 7
_FAR_NS: Final = 1_000_000
"""After a span that ended so long ago the processor time is read."""


@dataclass(slots=True)
class Overhead:
    """The processor time that Leadline takes in the training's thread.

    The processor time of spans that are far apart is measured; of others, that of one in eight, since it takes longer
    to read than the wall clock. The time of the rest is the wall time, multiplied by the share of the measured spans in
    which the thread had a processor: what other processes take is not Leadline's.
    """

    own_ns: int = 0
    loop_ns: int = 0
    clock: Callable[[], int] = time.perf_counter_ns
    cpu_clock: Callable[[], int] | None = None
    """Returns the processor time of the calling thread; None: as the clock does, for a clock of a test."""
    begun_ns: int = 0
    """When the current span began; 0: there is none."""
    first_ns: int = 0
    """When the first span began; 0: there was none."""
    _spans: int = 0
    _begun_cpu_ns: int = -1
    """The processor time at the beginning of the current span; -1: not taken."""
    _measured_ns: int = 1
    _measured_cpu_ns: int = 1

    def __post_init__(self) -> None:
        if self.cpu_clock is None:
            self.cpu_clock = time.thread_time_ns if self.clock is time.perf_counter_ns else self.clock

    def begin(self) -> int:
        """Begin a span of overhead; return the time, 0 within another span."""
        if self.begun_ns:
            return 0
        now = self.clock()
        self._spans += 1
        if not self._spans & _SAMPLES or now - self.first_ns - self.loop_ns > _FAR_NS:
            assert self.cpu_clock is not None
            self._begun_cpu_ns = self.cpu_clock()
        self.first_ns = self.first_ns or now
        self.begun_ns = now
        return now

    def end(self, begun_ns: int, more_ns: int = 0) -> None:
        """End the span that began at ``begun_ns``; 0: within another span.

        Args:
            more_ns: Overhead outside the span, such as that of calling the function that it measures.
        """
        if begun_ns:
            now = self.clock()
            if self._begun_cpu_ns >= 0:
                assert self.cpu_clock is not None
                own_ns = min(self.cpu_clock() - self._begun_cpu_ns, now - begun_ns)
                self._measured_ns += now - begun_ns
                self._measured_cpu_ns += own_ns
                self._begun_cpu_ns = -1
            else:
                own_ns = (now - begun_ns) * self._measured_cpu_ns // self._measured_ns
            self.own_ns += own_ns + more_ns
            self.loop_ns = now - self.first_ns
            self.begun_ns = 0

    def add(self, own_ns: int, begun_ns: int) -> None:
        """Add overhead within the training's own code.

        Args:
            own_ns: Its wall time.
            begun_ns: When it began; 0 if there was none.
        """
        self.own_ns += own_ns * self._measured_cpu_ns // self._measured_ns
        if begun_ns:
            self.first_ns = min(self.first_ns or begun_ns, begun_ns)

    def until(self, now_ns: int) -> int:
        """Return ``own_ns`` including the current span."""
        return self.own_ns + (now_ns - self.begun_ns if self.begun_ns else 0)


@dataclass(slots=True)
class StepOverhead:
    """Step time of one mode, and overhead of a step apart from captures; medians of the latest steps."""

    _plain_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_STEPS))
    _base_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_STEPS))

    def add(self, duration_ns: int, *, own_ns: int, captures_ns: int) -> None:
        """Add a step.

        Args:
            duration_ns: From the end of the previous step, wall clock.
            own_ns: The overhead in it.
            captures_ns: The part of the overhead that is captures.
        """
        self._plain_ns.append(max(duration_ns - own_ns, 0))
        self._base_ns.append(max(own_ns - captures_ns, 0))

    @property
    def is_known(self) -> bool:
        """Whether there are enough steps for a median."""
        return len(self._plain_ns) >= _MIN_STEPS

    @property
    def plain_ns(self) -> float:
        """The time of a step without overhead."""
        return median(self._plain_ns)

    @property
    def base_ns(self) -> float:
        """The overhead of a step at which nothing is captured."""
        return median(self._base_ns)


class CapturePrices:
    """Cost of each group per capture, estimated from captures of several groups at once.

    A capture is identified by its groups: the same groups cost the same. The first of each combination is left out,
    since programs are built, kernels warmed up and memory is allocated then; of the others the median of the latest
    eight counts. The cost of groups that are mostly captured together is divided so that all sums are met as well as
    possible (multiplicative algebraic reconstruction); groups that always occur together are divided by their number
    of statistics.

    Args:
        weights: The number of statistics of each group.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights
        self._samples: dict[Part, dict[frozenset[int], deque[int]]] = {}

    def add(self, part: Part, groups: frozenset[int], cost_ns: int) -> bool:
        """Add a capture of these groups; return whether it is a sample."""
        of_part = self._samples.setdefault(part, {})
        is_first = groups not in of_part
        kept = of_part.pop(groups, deque(maxlen=_MAX_SAMPLES))
        of_part[groups] = kept  # the latest is last
        if len(of_part) > _MAX_COMBINATIONS:
            del of_part[next(iter(of_part))]
        if not is_first:
            kept.append(cost_ns)
        return not is_first

    def samples(self, group: int) -> int:
        """Return the number of captures on which the price of a group is based."""
        kept = [kept for of_part in self._samples.values() for groups, kept in of_part.items() if group in groups]
        return max(map(len, kept), default=0)

    def is_separable(self, group: int) -> bool:
        """Return whether no other group was captured exactly whenever this one was."""
        captures = [
            (part, groups) for part, of_part in self._samples.items() for groups, kept in of_part.items() if kept
        ]
        own = {capture for capture in captures if group in capture[1]}
        others = {other for _, groups in own for other in groups} - {group}
        return not any({capture for capture in captures if other in capture[1]} == own for other in others)

    def estimate(self, *, is_cautious: bool = False) -> dict[int, float]:
        """Return the cost of a capture of each group in ns, except groups that were never captured.

        Args:
            is_cautious: Use the second most expensive capture instead of the median.
        """
        choose = _second_highest if is_cautious else _low_median
        total: dict[int, float] = {}
        for of_part in self._samples.values():
            costs = {groups: choose(kept) for groups, kept in of_part.items() if kept}
            for group, price in self._divide(costs).items():
                total[group] = total.get(group, 0.0) + price
        return total

    def _divide(self, costs: dict[frozenset[int], float]) -> dict[int, float]:
        prices: dict[int, float] = {}
        for groups in sorted(costs, key=len):
            new = [group for group in groups if group not in prices]
            rest = costs[groups] - sum(prices[group] for group in groups if group in prices)
            rest = max(rest, costs[groups] * _MIN_SHARE)
            weight = sum(self._weights[group] for group in new)
            prices |= {group: rest * self._weights[group] / weight for group in new}
        for _ in range(_MAX_SWEEPS):
            worst = 1.0
            for groups, cost in costs.items():
                ratio = cost / max(sum(prices[group] for group in groups), 1e-9)
                worst = max(worst, ratio, 1 / ratio)
                for group in groups:
                    prices[group] *= ratio
            if worst < _CONVERGED:
                break
        return prices


def _low_median(values: Sequence[int]) -> float:
    """Return the median; of two values the smaller, which is free of outliers."""
    ordered = sorted(values)
    return float(max(ordered[(len(ordered) - 1) // 2], 1))


def _second_highest(values: Sequence[int]) -> float:
    """Return the second highest value; of up to three values the highest."""
    ordered = sorted(values)
    return float(max(ordered[-2] if len(ordered) > 3 else ordered[-1], 1))
