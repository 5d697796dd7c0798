"""Units of times, in smdebug's interface of the profiler."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TimeUnits(Enum):
    """The unit of a time since the epoch."""

    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4


_NS: Final = {
    TimeUnits.SECONDS: 10**9,
    TimeUnits.MILLISECONDS: 10**6,
    TimeUnits.MICROSECONDS: 10**3,
    TimeUnits.NANOSECONDS: 1,
}


def convert_utc_timestamp_to_nanoseconds(timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS) -> int:
    """Return a time since the epoch in nanoseconds."""
    whole = int(timestamp)
    return whole * _NS[unit] + round((timestamp - whole) * _NS[unit])


def convert_utc_timestamp_to_microseconds(timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS) -> int:
    """Return a time since the epoch in whole microseconds."""
    return convert_utc_timestamp_to_nanoseconds(timestamp, unit) // 1000


def convert_utc_timestamp_to_seconds(timestamp: float, unit: TimeUnits = TimeUnits.MICROSECONDS) -> float:
    """Return a time since the epoch in seconds."""
    return convert_utc_timestamp_to_nanoseconds(timestamp, unit) / 10**9
