"""Calls that a step may make any number of times, added up: collectives by operation and group, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from leadline.records.phases import FORWARD


@dataclass(frozen=True, slots=True)
class CallKey:
    """A kind of call."""

    name: str
    """``collective`` or ``checkpoint``."""
    op: str = ""
    group: str = ""
    within: str = ""
    """The phase in which it happens; empty: in none."""


@dataclass(slots=True)
class CallTotal:
    """What the calls of one kind add up to."""

    start_ns: int
    """When the first began."""
    duration_ns: int = 0
    count: int = 0
    bytes: int | None = None
    """None: nobody knows."""

    def add(self, duration_ns: int, count: int, size: int | None) -> None:
        """Further calls."""
        self.duration_ns += duration_ns
        self.count += count
        if size is not None:
            self.bytes = (self.bytes or 0) + size

    def args(self, call: CallKey) -> dict[str, Any]:
        """What the timeline says of them."""
        named = {"op": call.op, "group": call.group, "within": call.within}
        known: dict[str, Any] = {"count": self.count} | {key: value for key, value in named.items() if value}
        return known if self.bytes is None else known | {"bytes": self.bytes}


class CallTotals:
    """The tallies of the step under way."""

    def __init__(self) -> None:
        self._found: dict[CallKey, CallTotal] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, call: CallKey, start_ns: int, duration_ns: int, size: int | None) -> None:
        """A call has ended.

        Args:
            size: Its bytes; None: nobody knows.
        """
        self._found.setdefault(call, CallTotal(start_ns)).add(duration_ns, 1, size)

    def settle(self, start_ns: int) -> None:
        """A forward pass that began then has ended: calls since, which were in no phase, were in it."""
        for call, each in list(self._found.items()):
            if not call.within and each.start_ns >= start_ns:
                del self._found[call]
                whole = self._found.setdefault(replace(call, within=FORWARD), CallTotal(each.start_ns))
                whole.add(each.duration_ns, each.count, each.bytes)

    def take(self) -> list[tuple[CallKey, CallTotal]]:
        """All of them, and begin anew."""
        found, self._found = self._found, {}
        return list(found.items())
