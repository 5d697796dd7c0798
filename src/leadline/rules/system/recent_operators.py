"""Operator times of the latest detailed profile windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from leadline.reader.operator_times import BIN_NS, OperatorTimes

_MAX_WINDOWS = 50


class RecentOperators:
    """The operator times of the latest profile windows of all workers."""

    def __init__(self) -> None:
        self._windows: deque[OperatorTimes] = deque(maxlen=_MAX_WINDOWS)

    def add(self, windows: Iterable[OperatorTimes]) -> None:
        """Append profile windows that are complete."""
        self._windows.extend(windows)

    def shares(self, times_ns: Iterable[int], length_ns: int) -> dict[str, float]:
        """Return the share of each operator in the intervals of ``length_ns`` that end at ``times_ns``.

        Units:
            Ratios of the time that profile windows cover, the largest first; empty if no window covers any of it.
        """
        bins = {
            index for time_ns in times_ns for index in range((time_ns - length_ns) // BIN_NS + 1, time_ns // BIN_NS + 1)
        }
        covered_ns, sums = 0, dict[str, int]()
        for window in self._windows:
            for index in sorted(bins & window.bins.keys()):
                begin, end = index * BIN_NS, (index + 1) * BIN_NS
                covered_ns += max(0, min(end, window.end_ns) - max(begin, window.start_ns))
                for name, taken_ns in window.bins[index].items():
                    sums[name] = sums.get(name, 0) + taken_ns
        if covered_ns == 0:
            return {}
        shares = {name: taken_ns / covered_ns for name, taken_ns in sums.items()}
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
