"""Units of times and names of files, in smdebug's interface of the profiler."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from enum import Enum
from typing import Final


class TimeUnits(Enum):
    """The unit of a time since the epoch."""

    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4


TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S:%f"
"""The format of smdebug's times, with a colon before the microseconds."""
_TRUTHS: Final = {
    **dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True),
    **dict.fromkeys(("n", "no", "f", "false", "off", "0"), False),
}
_TRACE_FILE: Final = re.compile(r"\d+_[^_]+_.+\.json")
_SYSTEM_FILE: Final = re.compile(r".+/system/.+/(\d{10})\.(algo-\d+)\.json")
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


def convert_utc_datetime_to_nanoseconds(timestamp_datetime: datetime) -> int:
    """Return a date and time in nanoseconds since the epoch."""
    return convert_utc_timestamp_to_nanoseconds(timestamp_datetime.timestamp(), TimeUnits.SECONDS)


def convert_utc_datetime_to_microseconds(timestamp_datetime: datetime) -> int:
    """Return a date and time in whole microseconds since the epoch."""
    return convert_utc_timestamp_to_microseconds(timestamp_datetime.timestamp(), TimeUnits.SECONDS)


def us_since_epoch_to_human_readable_time(us_since_epoch: float) -> str:
    """Return a time in microseconds since the epoch as the tables of profiles have it, in UTC."""
    return datetime.fromtimestamp(us_since_epoch / 10**6, UTC).strftime(TIME_FORMAT)


def ns_since_epoch_to_human_readable_time(ns_since_epoch: float) -> str:
    """Return a time in nanoseconds since the epoch as the tables of profiles have it, in UTC."""
    return datetime.fromtimestamp(ns_since_epoch / 10**9, UTC).strftime(TIME_FORMAT)


def str2bool(v: str | bool) -> bool:
    """Return the truth of a text, as the hyperparameters of scripts are given: ``yes``, ``true``, ``on``, ``1`` …

    Raises:
        ValueError: It is neither true nor false.
    """
    if isinstance(v, bool):
        return v
    if v.lower() not in _TRUTHS:
        raise ValueError(f"one of {', '.join(_TRUTHS)} is expected, not {v!r}")
    return _TRUTHS[v.lower()]


def is_valid_tracefilename(filename: str) -> bool:
    """Return whether a path is that of a trace file, ``…/pevents/<hour>/<time>_<process>_<kind>.json``."""
    return "pevents" in filename and _TRACE_FILE.fullmatch(os.path.basename(filename)) is not None


def validate_system_profiler_file(filename: str) -> bool:
    """Return whether a path is that of a file of system metrics, ``…/system/…/<time>.algo-<n>.json``."""
    return _SYSTEM_FILE.fullmatch(filename) is not None


def get_node_id_from_system_profiler_filename(filename: str) -> str | None:
    """Return the node of a file of system metrics; None if it is none."""
    found = _SYSTEM_FILE.fullmatch(filename)
    return found[2] if found else None


def get_utctimestamp_us_since_epoch_from_system_profiler_file(filename: str) -> int | None:
    """Return the time of a file of system metrics, in microseconds since the epoch; None if it is none."""
    found = _SYSTEM_FILE.fullmatch(filename)
    return int(found[1]) * 10**6 if found else None
