"""Time of the training's phases and operators in short bins, to tell which of them overlap a given time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from leadline.profiles.operator_times import BIN_NS, OperatorTimes
from leadline.reader.interval import Spans
from leadline.records.names import PHASES
from leadline.rules import Window

_MAX_WINDOWS: Final = 50
_MAX_BINS: Final = 12_000
"""Twenty minutes; older bins are discarded."""
_MAX_NAMED: Final = 3
_MAX_OPERATORS: Final = 10
"""Operators in the evidence of a finding."""
TIMELINE_ROWS: Final = (*PHASES, "step", "imports", "setup")
"""The rows of the timeline that are used."""


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


@dataclass(frozen=True, slots=True)
class PhaseOverlap:
    """The phases and operators of the training in the intervals of a finding."""

    phases: dict[str, float]
    """The shares of the phases, with the sum 1; empty: not known."""
    operators: dict[str, float]
    """The shares of the operators in the time that detailed profile windows cover; empty: none does."""

    @property
    def message(self) -> str:
        """``; meanwhile: 71 % data, 20 % forward; operators: 40 % aten::mm``; "" if nothing is known."""
        return _format_shares("meanwhile", self.phases) + _format_shares("operators", self.operators)

    @property
    def evidence(self) -> dict[str, dict[str, float]]:
        """The entries for the evidence of a finding."""
        operators = dict(list(self.operators.items())[:_MAX_OPERATORS])
        return {"phases": self.phases, **({"operators": operators} if operators else {})}


class PhaseTimes:
    """Time by phase in bins of a tenth of a second, summed over all workers.

    The time of a phase within another one is subtracted from the outer phase; ``other`` is the time of a step outside
    its phases; the time of an eval step is ``eval``.
    """

    def __init__(self) -> None:
        self._bins: dict[int, dict[str, float]] = {}
        self._operators = RecentOperators()

    def add_window(self, window: Window) -> None:
        """Add the phases that ended, and the detailed profile windows that became complete."""
        self.add(window.spans())
        self._operators.add(window.operators())

    def overlap(self, times_ns: Iterable[int], length_ns: int) -> PhaseOverlap:
        """Return the phases and operators in the intervals of ``length_ns`` that end at ``times_ns``."""
        times_ns = list(times_ns)
        return PhaseOverlap(self.shares(times_ns, length_ns), self._operators.shares(times_ns, length_ns))

    def add(self, rows: Iterable[Spans]) -> None:
        """Add phases that ended."""
        import numpy as np

        for spans in rows:
            name, within = self._names(spans)
            if not name:
                continue
            starts, ends = spans.starts_ns, spans.starts_ns + spans.durations_ns
            first, last = starts // BIN_NS, np.maximum(starts, ends - 1) // BIN_NS
            is_short = first == last
            for index, taken_ns in _sum_by_bin(first[is_short], spans.durations_ns[is_short]):
                self._put(index, taken_ns, name, within)
            for start, end in zip(starts[~is_short].tolist(), ends[~is_short].tolist(), strict=True):
                self._put_long(max(start, end - _MAX_BINS * BIN_NS), end, name, within)
        self._discard_old()

    def shares(self, times_ns: Iterable[int], length_ns: int) -> dict[str, float]:
        """Return the share of each phase in the intervals of ``length_ns`` that end at ``times_ns``; largest first.

        Units:
            Ratios with the sum 1; empty if no phase of that time is known.
        """
        bins = {
            index
            for time_ns in times_ns
            for index in range((time_ns - length_ns) // BIN_NS, (time_ns - 1) // BIN_NS + 1)
        }
        sums: dict[str, float] = {}
        for index in sorted(bins & self._bins.keys()):
            for name, taken_ns in self._bins[index].items():
                sums[name] = sums.get(name, 0.0) + taken_ns
        rest = sums.pop("step", 0.0) - sum(sums.get(name, 0.0) for name in PHASES)
        if rest > 0:
            sums["other"] = rest
        total = sum(max(0.0, taken_ns) for taken_ns in sums.values())
        shares = {name: taken_ns / total for name, taken_ns in sums.items() if taken_ns > 0}
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    @staticmethod
    def _names(spans: Spans) -> tuple[str, str]:
        """Return the phase to which spans are added, and the one from which they are subtracted."""
        key = spans.key
        if key.mode in ("eval", "predict"):
            return (key.mode, "") if key.name == "step" else ("", "")
        return key.name, key.within

    def _put(self, index: int, taken_ns: float, name: str, within: str) -> None:
        phases = self._bins.setdefault(index, {})
        phases[name] = phases.get(name, 0.0) + taken_ns
        if within:
            phases[within] = phases.get(within, 0.0) - taken_ns

    def _put_long(self, start: int, end: int, name: str, within: str) -> None:
        while start < end:
            index = start // BIN_NS
            until = min(end, (index + 1) * BIN_NS)
            self._put(index, until - start, name, within)
            start = until

    def _discard_old(self) -> None:
        if len(self._bins) > 2 * _MAX_BINS:
            for index in sorted(self._bins)[:-_MAX_BINS]:
                del self._bins[index]


def _sum_by_bin(bins: Any, taken_ns: Any) -> Iterable[tuple[int, float]]:
    import numpy as np

    unique, inverse = np.unique(bins, return_inverse=True)
    return zip(unique.tolist(), np.bincount(inverse, weights=taken_ns, minlength=len(unique)).tolist(), strict=True)


def _format_shares(label: str, shares: dict[str, float]) -> str:
    """Format the largest shares: ``; meanwhile: 71 % data, 20 % forward``; "" if there are none."""
    largest = [f"{100 * share:.0f} % {name}" for name, share in list(shares.items())[:_MAX_NAMED] if share >= 0.005]
    return f"; {label}: {', '.join(largest)}" if largest else ""
