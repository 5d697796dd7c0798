"""Interfaces of a timeline: the sinks of its rows and events, and the overhead that it subtracts; its first spans."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from leadline.records import phases
from leadline.records.clocks import wall_offset_ns
from leadline.records.event import Event
from leadline.records.json_object import JsonObject

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

    def until(self, now_ns: int) -> int:
        """Return the overhead up to now, including that of the current span."""


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
    name: str, phase: str, step: int, start_ns: int, duration_ns: int, *, thread: int, args: JsonObject | None
) -> Event:
    """Return an event with a duration.

    Args:
        start_ns: When it began, in ``time.perf_counter_ns``.
    """
    return Event(name, step, wall_offset_ns() + start_ns, duration_ns, phase, thread, args or {})


def initialization_spans(
    step: int, start_ns: int, now_ns: int, *, created_ns: int, imported_ns: int | None
) -> Iterator[tuple[str, int, int, int]]:
    """Iterate over the name, step, start and duration of each span.

    Args:
        step: The first step.
        start_ns: When it began.
        now_ns: When it ended.
        created_ns: When the timeline was created.
        imported_ns: When the framework had been imported, if known.
    """
    if imported_ns is not None:
        age = process_age_ns()
        if age is not None:
            process_ns = time.perf_counter_ns() - age
            yield phases.IMPORTS, 0, process_ns, max(imported_ns - process_ns, 0)
    begun = imported_ns or created_ns
    yield phases.SETUP, 0, begun, max(start_ns - begun, 0)
    yield phases.FIRST_STEP, step, start_ns, now_ns - start_ns


def process_age_ns() -> int | None:
    """Return the time since this process started; None if the system does not provide it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError, IndexError):
        return None
