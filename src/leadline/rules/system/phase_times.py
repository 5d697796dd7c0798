"""Which phases of the training went on at what time, so that a bad moment of the machine can be told by its phase."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.reader.interval import Spans
from leadline.records.names import PHASES
from leadline.rules.system.operators_at import OperatorsAt

if TYPE_CHECKING:
    from leadline.reader.window import Window

BIN_NS: Final = 100_000_000
_MOST_BINS: Final = 12_000
"""Twenty minutes; what is older is forgotten."""
_MOST_NAMED: Final = 3
_MOST_KEPT: Final = 10
"""Operators that a finding's evidence has."""
WATCHED: Final = (*PHASES, "step", "imports", "setup")
"""The rows that are looked at."""


@dataclass(frozen=True, slots=True)
class PhaseOverlap:
    """What the training did in the intervals that a finding is about."""

    phases: dict[str, float]
    """The shares of the phases, 1 in all; empty: not known."""
    operators: dict[str, float]
    """What operators took of the time that detailed windows recorded of it; empty: none did."""

    @property
    def spoken(self) -> str:
        """``; meanwhile: 71 % data, 20 % forward; operators: 40 % aten::mm``; nothing where nothing is known."""
        return format_phases(self.phases) + _spoken("operators", self.operators)

    @property
    def evidence(self) -> dict[str, Any]:
        """For a finding."""
        operators = dict(list(self.operators.items())[:_MOST_KEPT])
        return {"phases": self.phases, **({"operators": operators} if operators else {})}


class PhaseTimes:
    """Time by phase in bins of a tenth of a second, all workers together.

    A phase that lies within another is taken out of that one; ``other`` is what a step has beside its phases; what
    an eval step takes is ``eval``.
    """

    def __init__(self) -> None:
        self._bins: dict[int, dict[str, float]] = {}
        self._operators = OperatorsAt()

    def add_window(self, window: Window) -> None:
        """Take in the phases that ended, and the detailed windows that became whole."""
        self.add(window.spans())
        self._operators.add(window.operators())

    def meanwhile(self, times_ns: Iterable[int], length_ns: int) -> PhaseOverlap:
        """What the training did in the intervals of a length that end at some times."""
        times_ns = list(times_ns)
        return PhaseOverlap(self.shares(times_ns, length_ns), self._operators.shares(times_ns, length_ns))

    def add(self, spans: Iterable[Spans]) -> None:
        """Take in the phases that ended."""
        import numpy as np

        for each in spans:
            name, within = self._names(each)
            if not name:
                continue
            starts, ends = each.starts_ns, each.starts_ns + each.durations_ns
            first, last = starts // BIN_NS, np.maximum(starts, ends - 1) // BIN_NS
            is_short = first == last
            for place, taken in _summed(first[is_short], each.durations_ns[is_short]):
                self._put(place, taken, name, within)
            for start, end in zip(starts[~is_short].tolist(), ends[~is_short].tolist(), strict=True):
                self._put_long(max(start, end - _MOST_BINS * BIN_NS), end, name, within)
        self._forget()

    def shares(self, times_ns: Iterable[int], length_ns: int) -> dict[str, float]:
        """How the time divides in the intervals of a length that end at some times; the largest share first.

        Units:
            Ratios, 1 in all; empty where no phase is known of these times.
        """
        places = {
            place
            for time_ns in times_ns
            for place in range((time_ns - length_ns) // BIN_NS, (time_ns - 1) // BIN_NS + 1)
        }
        sums: dict[str, float] = {}
        for place in sorted(places & self._bins.keys()):
            for name, taken in self._bins[place].items():
                sums[name] = sums.get(name, 0.0) + taken
        rest = sums.pop("step", 0.0) - sum(sums.get(name, 0.0) for name in PHASES)
        if rest > 0:
            sums["other"] = rest
        whole = sum(max(0.0, each) for each in sums.values())
        found = {name: each / whole for name, each in sums.items() if each > 0}
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    @staticmethod
    def _names(spans: Spans) -> tuple[str, str]:
        """As what it counts, and what it is taken out of."""
        key = spans.key
        if key.mode in ("eval", "predict"):
            return (key.mode, "") if key.name == "step" else ("", "")
        return key.name, key.within

    def _put(self, place: int, taken: float, name: str, within: str) -> None:
        known = self._bins.setdefault(place, {})
        known[name] = known.get(name, 0.0) + taken
        if within:
            known[within] = known.get(within, 0.0) - taken

    def _put_long(self, start: int, end: int, name: str, within: str) -> None:
        while start < end:
            place = start // BIN_NS
            until = min(end, (place + 1) * BIN_NS)
            self._put(place, until - start, name, within)
            start = until

    def _forget(self) -> None:
        if len(self._bins) > 2 * _MOST_BINS:
            for place in sorted(self._bins)[:-_MOST_BINS]:
                del self._bins[place]


def _summed(places: Any, taken: Any) -> Iterable[tuple[int, float]]:
    import numpy as np

    unique, inverse = np.unique(places, return_inverse=True)
    return zip(unique.tolist(), np.bincount(inverse, weights=taken, minlength=len(unique)).tolist(), strict=True)


def format_phases(shares: dict[str, float]) -> str:
    """``; meanwhile: 71 % data, 20 % forward``; nothing where no phase is known."""
    return _spoken("meanwhile", shares)


def _spoken(what: str, shares: dict[str, float]) -> str:
    named = [f"{100 * share:.0f} % {name}" for name, share in list(shares.items())[:_MOST_NAMED] if share >= 0.005]
    return f"; {what}: {', '.join(named)}" if named else ""
