"""Which part of a run is meant: from a step or time on, until another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import ConfigurationError, NotCapturedError

_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|h)")
_UNITS: Final = {"ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}


@dataclass(frozen=True, slots=True)
class Span:
    """From a time to before another, by the wall clock; None: no bound."""

    start_ns: int | None = None
    end_ns: int | None = None

    def meets(self, start_ns: int, end_ns: int) -> bool:
        """Whether some of what lasted so long lies within."""
        return (self.end_ns is None or start_ns < self.end_ns) and (
            self.start_ns is None or end_ns > self.start_ns or start_ns == self.start_ns
        )

    def holds(self, time_ns: int) -> bool:
        """Whether a moment lies within."""
        return (self.start_ns is None or self.start_ns <= time_ns) and (self.end_ns is None or time_ns < self.end_ns)


def parse_span(
    start: str | None,
    end: str | None,
    *,
    timeline: pa.Table,
    started_ns: int,
    names: tuple[str, str] = ("--from", "--until"),
) -> Span:
    """A part of a run from words.

    Args:
        start, end: A step (``120``) or a time after the run's start (``90s``); until a step means: before it begins.
        names: What whoever asks calls the two.
    Raises:
        ConfigurationError: One is neither, or nothing lies between them.
        NotCapturedError: The run has no such step.
    """
    found = Span(
        None if start is None else _moment(start, names[0], timeline, started_ns),
        None if end is None else _moment(end, names[1], timeline, started_ns, is_end=True),
    )
    if found.start_ns is not None and found.end_ns is not None and found.start_ns >= found.end_ns:
        raise ConfigurationError(f"{names[0]} {start} is not before {names[1]} {end}")
    return found


def _moment(word: str, option: str, timeline: pa.Table, started_ns: int, *, is_end: bool = False) -> int | None:
    if word.isdecimal():
        return _begin_of_step(int(word), option, timeline, is_end=is_end)
    match = _TIME.fullmatch(word)
    if match is None:
        raise ConfigurationError(f"{option} {word!r} is no step (120) and no time after the start (90s, 5min)")
    return started_ns + round(float(match[1]) * _UNITS[match[2]])


def _begin_of_step(step: int, option: str, timeline: pa.Table, *, is_end: bool) -> int | None:
    """When the first worker began it, or the next step that was written; None: an end beyond the last step."""
    steps = timeline.filter(pc.equal(timeline["name"], "step"))
    later = steps.filter(pc.greater_equal(steps["step"], step))
    if len(later):
        return int(pc.min(later.filter(pc.equal(later["step"], pc.min(later["step"])))["start_ns"]).as_py())
    if is_end:
        return None
    last = pc.max(steps["step"]).as_py()
    known = "it has timed no step" if last is None else f"the last that was timed is {last:,}"
    raise NotCapturedError(f"{option} {step}: the run has no such step; {known}")
