"""Conversion between clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_ATTEMPTS: Final = 5
_SHORT_NS: Final = 5_000
"""Nothing else has run between readings that are this close together."""


def wall_offset_ns(
    clock: Callable[[], int] = time.perf_counter_ns, wall_clock: Callable[[], int] = time.time_ns
) -> int:
    """Return what has to be added to a clock to get the wall clock.

    Another thread or process may run between the readings of both, for milliseconds on a busy machine: the pair counts
    that was read in the least time.
    """
    shortest_ns, offset_ns = -1, 0
    for _ in range(_ATTEMPTS):
        before_ns, wall_ns, after_ns = clock(), wall_clock(), clock()
        took_ns = after_ns - before_ns
        if shortest_ns < 0 or took_ns < shortest_ns:
            shortest_ns, offset_ns = took_ns, wall_ns - before_ns - took_ns // 2
        if took_ns < _SHORT_NS:
            break
    return offset_ns
