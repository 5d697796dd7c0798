"""What watching takes of a training's time: in all, and capture by capture."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

Part = Literal["tensors", "raw", "forward"]
"""Statistics of parameters and gradients; their raw tensors; all of a forward pass."""

_SAMPLES: Final = 8
_STEPS: Final = 32
_FEWEST_STEPS: Final = 4
_SIGNATURES: Final = 8
_SWEEPS: Final = 8
_NEAR: Final = 1.01
"""Sums that are met so well need no further sweep."""
_LEAST_PART: Final = 0.01
"""What of a capture's cost those have at least that came to cheaper ones."""


@dataclass(slots=True)
class Overhead:
    """What watching takes of a training's time, as the training's thread feels it."""

    own_ns: int = 0
    loop_ns: int = 0
    clock: Callable[[], int] = time.perf_counter_ns
    _first_ns: int = 0
    _begun_ns: int | None = None

    def begin(self) -> int:
        """Something of ours begins."""
        now = self.clock()
        self._first_ns = self._first_ns or now
        self._begun_ns = now
        return now

    def end(self, begun_ns: int) -> None:
        """What ``begin`` told of has ended."""
        now = self.clock()
        self.own_ns += now - begun_ns
        self.loop_ns = now - self._first_ns
        self._begun_ns = None

    def add(self, own_ns: int, begun_ns: int) -> None:
        """Something of ours was going on within the training's own code.

        Args:
            begun_ns: When it began; 0: it did not.
        """
        self.own_ns += own_ns
        if begun_ns:
            self._first_ns = min(self._first_ns or begun_ns, begun_ns)

    def until(self, now_ns: int) -> int:
        """``own_ns`` with what is under way."""
        return self.own_ns + (now_ns - self._begun_ns if self._begun_ns is not None else 0)


@dataclass(slots=True)
class StepOverhead:
    """How long the steps of one mode take, and what we take of those apart from captures; medians of the latest."""

    _plain_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_STEPS))
    _base_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_STEPS))

    def add(self, duration_ns: int, *, own_ns: int, captures_ns: int) -> None:
        """A step has ended.

        Args:
            duration_ns: From the end of the step before, wall clock.
            own_ns: What of it was ours.
            captures_ns: What of that was captures.
        """
        self._plain_ns.append(max(duration_ns - own_ns, 0))
        self._base_ns.append(max(own_ns - captures_ns, 0))

    @property
    def is_known(self) -> bool:
        """Whether there were enough steps for a median."""
        return len(self._plain_ns) >= _FEWEST_STEPS

    @property
    def plain_ns(self) -> float:
        """A step without us."""
        return median(self._plain_ns)

    @property
    def base_ns(self) -> float:
        """What we take of a step at which nothing is captured."""
        return median(self._base_ns)


class CapturePrices:
    """What the wishes of each group cost when they are captured, worked out from captures of several at once.

    A capture is known by its groups: the same groups cost the same. The first of each kind is left out, since
    programs are made, kernels warmed up and memory is found then; of the others the median of the latest eight
    counts. What groups cost that are mostly captured together is parted so that every sum is met as well as may
    be (multiplicative algebraic reconstruction); where nothing tells them apart, by the number of statistics.

    Args:
        weights: For each group how many statistics it has.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights
        self._samples: dict[Part, dict[frozenset[int], deque[int]]] = {}

    def add(self, part: Part, groups: frozenset[int], cost_ns: int) -> bool:
        """A capture of those groups took so long; whether that tells anything new."""
        of_part = self._samples.setdefault(part, {})
        is_first = groups not in of_part
        kept = of_part.pop(groups, deque(maxlen=_SAMPLES))
        of_part[groups] = kept  # the latest stands last
        if len(of_part) > _SIGNATURES:
            del of_part[next(iter(of_part))]
        if not is_first:
            kept.append(cost_ns)
        return not is_first

    def samples(self, group: int) -> int:
        """How many captures the price of a group rests on."""
        found = [kept for each in self._samples.values() for groups, kept in each.items() if group in groups]
        return max(map(len, found), default=0)

    def is_told_apart(self, group: int) -> bool:
        """Whether no other group was captured with it whenever it was captured, and never without it."""
        captures = [
            (part, groups) for part, of_part in self._samples.items() for groups, kept in of_part.items() if kept
        ]
        own = {each for each in captures if group in each[1]}
        others = {other for _, groups in own for other in groups} - {group}
        return not any({each for each in captures if other in each[1]} == own for other in others)

    def estimate(self, *, is_cautious: bool = False) -> dict[int, float]:
        """What a capture of each group costs in ns; groups that were never captured are not in it.

        Args:
            is_cautious: Take the second dearest of the captures, not the one in the middle.
        """
        choose = _second_dearest if is_cautious else _low_median
        total: dict[int, float] = {}
        for of_part in self._samples.values():
            known = {groups: choose(kept) for groups, kept in of_part.items() if kept}
            for group, price in self._parted(known).items():
                total[group] = total.get(group, 0.0) + price
        return total

    def _parted(self, known: dict[frozenset[int], float]) -> dict[int, float]:
        prices: dict[int, float] = {}
        for groups in sorted(known, key=len):
            new = [each for each in groups if each not in prices]
            rest = known[groups] - sum(prices[each] for each in groups if each in prices)
            rest = max(rest, known[groups] * _LEAST_PART)
            weight = sum(self._weights[each] for each in new)
            prices |= {each: rest * self._weights[each] / weight for each in new}
        for _ in range(_SWEEPS):
            worst = 1.0
            for groups, cost in known.items():
                ratio = cost / max(sum(prices[each] for each in groups), 1e-9)
                worst = max(worst, ratio, 1 / ratio)
                for each in groups:
                    prices[each] *= ratio
            if worst < _NEAR:
                break
        return prices


def _low_median(values: Sequence[int]) -> float:
    """The median; of two the smaller, which a hiccup has not touched."""
    ordered = sorted(values)
    return float(max(ordered[(len(ordered) - 1) // 2], 1))


def _second_dearest(values: Sequence[int]) -> float:
    """Of few the dearest."""
    ordered = sorted(values)
    return float(max(ordered[-2] if len(ordered) > 3 else ordered[-1], 1))
