"""Sums of the current step: its phases, and calls that it may make any number of times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from leadline.records.phases import FORWARD

DATA_IN_OPTIMIZER: Final = 1
FORWARD_IN_OPTIMIZER: Final = 2
BACKWARD_IN_OPTIMIZER: Final = 4
OPTIMIZER_IN_BACKWARD: Final = 8
"""Bits of ``nesting``, as ``records.phases.NESTED`` names them."""


PHASES: Final = tuple((f"{phase}_at", phase, f"{phase}s") for phase in ("data", "forward", "backward", "optimizer"))
"""The attributes with start, duration and number of each phase."""


class PhaseSums:
    """Start, duration and number of each phase since the previous step ended."""

    __slots__ = (
        "backward",
        "backward_at",
        "backwards",
        "data",
        "data_at",
        "datas",
        "forward",
        "forward_at",
        "forwards",
        "nesting",
        "optimizer",
        "optimizer_at",
        "optimizers",
    )

    def __init__(self) -> None:
        self.data_at = self.data = self.datas = 0
        self.forward_at = self.forward = self.forwards = 0
        self.backward_at = self.backward = self.backwards = 0
        self.optimizer_at = self.optimizer = self.optimizers = self.nesting = 0

    def add(self, later: PhaseSums) -> None:
        """Add later sums of the same step."""
        for at, duration, count in PHASES:
            setattr(self, at, getattr(self, at) or getattr(later, at))
            setattr(self, duration, getattr(self, duration) + getattr(later, duration))
            setattr(self, count, getattr(self, count) + getattr(later, count))
        self.nesting |= later.nesting

    def flat(self) -> tuple[int, ...]:
        """Return all values in the order of ``records.phases.STEP_PHASES``."""
        return (
            self.data_at,
            self.data,
            self.datas,
            self.forward_at,
            self.forward,
            self.forwards,
            self.backward_at,
            self.backward,
            self.backwards,
            self.optimizer_at,
            self.optimizer,
            self.optimizers,
        )


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

    def args(self, call: CallKey) -> dict[str, Any]:
        """Return the arguments of the timeline event."""
        named = {"op": call.op, "group": call.group, "within": call.within}
        known: dict[str, Any] = {"count": self.count} | {key: value for key, value in named.items() if value}
        return known if self.bytes is None else known | {"bytes": self.bytes}


class CallTotals:
    """The totals of the current step."""

    def __init__(self) -> None:
        self._totals: dict[CallKey, CallTotal] = {}

    def __bool__(self) -> bool:
        return bool(self._totals)

    def add(self, call: CallKey, start_ns: int, duration_ns: int, size: int | None) -> None:
        """Add a call.

        Args:
            size: Its bytes; None if unknown.
        """
        self._totals.setdefault(call, CallTotal(start_ns)).add(duration_ns, 1, size)

    def assign_to_forward(self, start_ns: int) -> None:
        """Assign calls outside all phases since ``start_ns`` to the forward pass that began then and has ended."""
        for call, total in list(self._totals.items()):
            if not call.within and total.start_ns >= start_ns:
                del self._totals[call]
                whole = self._totals.setdefault(replace(call, within=FORWARD), CallTotal(total.start_ns))
                whole.add(total.duration_ns, total.count, total.bytes)

    def take(self) -> list[tuple[CallKey, CallTotal]]:
        """Return all totals, and start over."""
        totals, self._totals = self._totals, {}
        return list(totals.items())
