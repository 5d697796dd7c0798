"""Spans of a training's initialization: imports, setup, first step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from leadline.records import phases


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
