"""Which operators ran at what time, where detailed windows recorded it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from leadline.reader.operator_times import BIN_NS, OperatorTimes

_MOST_WINDOWS = 50


class OperatorsAt:
    """The latest windows of all workers."""

    def __init__(self) -> None:
        self._windows: deque[OperatorTimes] = deque(maxlen=_MOST_WINDOWS)

    def add(self, windows: Iterable[OperatorTimes]) -> None:
        """Take in the windows that became whole."""
        self._windows.extend(windows)

    def shares(self, times_ns: Iterable[int], length_ns: int) -> dict[str, float]:
        """What operators took of the time, in the intervals of a length that end at some times and lie in windows.

        Units:
            Ratios of the time that windows cover there, the largest first; empty where no window was recorded.
        """
        places = {
            place for time_ns in times_ns for place in range((time_ns - length_ns) // BIN_NS + 1, time_ns // BIN_NS + 1)
        }
        covered_ns, sums = 0, dict[str, int]()
        for window in self._windows:
            for place in sorted(places & window.bins.keys()):
                begin, end = place * BIN_NS, (place + 1) * BIN_NS
                covered_ns += max(0, min(end, window.end_ns) - max(begin, window.start_ns))
                for name, taken in window.bins[place].items():
                    sums[name] = sums.get(name, 0) + taken
        if covered_ns == 0:
            return {}
        found = {name: taken / covered_ns for name, taken in sums.items()}
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
