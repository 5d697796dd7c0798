"""Interfaces of a timeline: the sinks of its rows and events, and the overhead that it subtracts."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from leadline.records.event import Event

_MAX_HELD: Final = 4096
"""Rows and events that are kept until there is a writer."""


class PhaseSink(Protocol):
    """Takes the times of steps."""

    def put_phases(self, row: bytes) -> None:
        """Take a step, packed as ``records.phases.ROW``."""

    def put_event(self, event: Event) -> None:
        """Take an event."""


class OwnTime(Protocol):
    """The overhead so far."""

    own_ns: int

    def until(self, now_ns: int) -> int:
        """Return ``own_ns`` including the current span."""


@dataclass(slots=True)
class HoldingSink:
    """Holds rows and events until there is a writer."""

    rows: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAX_HELD))
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_MAX_HELD))

    def put_phases(self, row: bytes) -> None:
        self.rows.append(row)

    def put_event(self, event: Event) -> None:
        self.events.append(event)

    def pass_on(self, sink: PhaseSink) -> None:
        """Pass everything on to another sink."""
        for row in self.rows:
            sink.put_phases(row)
        for event in self.events:
            sink.put_event(event)


def timed_event(
    name: str, phase: str, step: int, start_ns: int, duration_ns: int, *, thread: int, args: dict[str, Any] | None
) -> Event:
    """Return an event with a duration.

    Args:
        start_ns: When it began, in ``time.perf_counter_ns``.
    """
    wall_ns = time.time_ns() - time.perf_counter_ns() + start_ns
    return Event(name, step, wall_ns, duration_ns, phase, thread, args or {})
