"""Sums of the current step: its phases, and calls that it may make any number of times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from leadline.records.phases import STEP_PHASES

DATA_IN_OPTIMIZER: Final = 1
FORWARD_IN_OPTIMIZER: Final = 2
BACKWARD_IN_OPTIMIZER: Final = 4
OPTIMIZER_IN_BACKWARD: Final = 8
"""Bits of ``nesting``, as ``records.phases.NESTED`` names them."""


_PHASES: Final = tuple((f"{phase}_at", phase, f"{phase}s", f"{phase}_ready") for phase in STEP_PHASES)
"""The attributes with start, duration, number and ready time of each phase."""


class PhaseSums:
    """Start, duration, number and ready time of each phase since the previous step ended."""

    __slots__ = (*(name for attributes in _PHASES for name in attributes), "nesting")

    data_at: int
    data: int
    datas: int
    data_ready: int
    host_at: int
    host: int
    hosts: int
    host_ready: int
    forward_at: int
    forward: int
    forwards: int
    forward_ready: int
    backward_at: int
    backward: int
    backwards: int
    backward_ready: int
    optimizer_at: int
    optimizer: int
    optimizers: int
    optimizer_ready: int
    nesting: int

    def __init__(self) -> None:
        self.data_at = self.data = self.datas = self.data_ready = 0
        self.host_at = self.host = self.hosts = self.host_ready = 0
        self.forward_at = self.forward = self.forwards = self.forward_ready = 0
        self.backward_at = self.backward = self.backwards = self.backward_ready = 0
        self.optimizer_at = self.optimizer = self.optimizers = self.optimizer_ready = self.nesting = 0

    def add(self, later: PhaseSums) -> None:
        """Add later sums of the same step."""
        for at, *totals in _PHASES:
            setattr(self, at, getattr(self, at) or getattr(later, at))
            for total in totals:
                setattr(self, total, getattr(self, total) + getattr(later, total))
        self.nesting |= later.nesting


flat: Final = attrgetter(*(name for attributes in _PHASES for name in attributes))
"""Returns the values of sums in the order of ``records.phases.ROW``."""


@dataclass(frozen=True, slots=True)
class CallKey:
    """A kind of call."""

    name: str
    """``collective`` or ``checkpoint``."""
    op: str = ""
    group: str = ""
    within: str = ""
    """The phase in which it is called; empty outside all phases."""


@dataclass(slots=True)
class CallTotal:
    """The total of the calls of one kind."""

    start_ns: int
    """When the first call began."""
    duration_ns: int = 0
    count: int = 0
    bytes: int | None = None
    """None if unknown."""

    def add(self, duration_ns: int, count: int, size: int | None) -> None:
        """Add calls."""
        self.duration_ns += duration_ns
        self.count += count
        if size is not None:
            self.bytes = (self.bytes or 0) + size

    def args(self, call: CallKey) -> dict[str, str | int]:
        """Return the arguments of the timeline event."""
        named = {"op": call.op, "group": call.group, "within": call.within}
        known: dict[str, str | int] = {"count": self.count}
        known |= {key: value for key, value in named.items() if value}
        return known if self.bytes is None else known | {"bytes": self.bytes}


class CallTotals:
    """The totals of the current step."""

    def __init__(self) -> None:
        self.totals: dict[CallKey, CallTotal] = {}

    def add(self, call: CallKey, start_ns: int, duration_ns: int, size: int | None) -> None:
        """Add a call.

        Args:
            size: Its bytes; None if unknown.
        """
        self.totals.setdefault(call, CallTotal(start_ns)).add(duration_ns, 1, size)

    def assign(self, phase: str, start_ns: int) -> None:
        """Assign calls outside all phases since ``start_ns`` to the phase that began then and has ended."""
        for call, total in list(self.totals.items()):
            if not call.within and total.start_ns >= start_ns:
                del self.totals[call]
                whole = self.totals.setdefault(replace(call, within=phase), CallTotal(total.start_ns))
                whole.add(total.duration_ns, total.count, total.bytes)

    def take(self) -> list[tuple[CallKey, CallTotal]]:
        """Return all totals, and start over."""
        totals, self.totals = self.totals, {}
        return list(totals.items())
