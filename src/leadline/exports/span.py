"""Time spans of a run, given by steps or times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import ConfigurationError, NotCapturedError

if TYPE_CHECKING:
    from leadline.reader.run import Run

_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|h)")
_UNITS: Final = {"ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of wall-clock time; None means unbounded."""

    start_ns: int | None = None
    end_ns: int | None = None

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Return whether a range overlaps the span."""
        return (self.end_ns is None or start_ns < self.end_ns) and (
            self.start_ns is None or end_ns > self.start_ns or start_ns == self.start_ns
        )

    def contains(self, time_ns: int) -> bool:
        """Return whether a time is in the span."""
        return (self.start_ns is None or self.start_ns <= time_ns) and (self.end_ns is None or time_ns < self.end_ns)


def parse_span(
    start: str | None,
    end: str | None,
    *,
    timeline: pa.Table,
    started_ns: int,
    names: tuple[str, str] = ("--from", "--until"),
) -> Span:
    """Parse a span from two option values.

    Args:
        start, end: A train step (``120``) or a time after the run's start (``90s``); an end step is excluded.
        timeline: From ``train_steps``.
        names: The names of the two options for error messages.
    Raises:
        ConfigurationError: A value is invalid, or the span is empty.
        NotCapturedError: The run has no such step.
    """
    span = Span(
        None if start is None else _time_of(start, names[0], timeline, started_ns),
        None if end is None else _time_of(end, names[1], timeline, started_ns, is_end=True),
    )
    if span.start_ns is not None and span.end_ns is not None and span.start_ns >= span.end_ns:
        raise ConfigurationError(f"{names[0]} {start} is not before {names[1]} {end}")
    return span


def _time_of(text: str, option: str, timeline: pa.Table, started_ns: int, *, is_end: bool = False) -> int | None:
    if text.isdecimal():
        return _start_of_step(int(text), option, timeline, is_end=is_end)
    match = _TIME.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{option} {text!r} is not a step (120) or a time after the start (90s, 5min)")
    return started_ns + round(float(match[1]) * _UNITS[match[2]])


def train_steps(run: Run, worker: str | None = None) -> pa.Table:
    """Return the rows of the timeline for train steps, with ``step`` counted in train steps.

    In a worker that never trains they are those of its first mode.
    """
    tables = []
    for name in run.archive.timeline if worker is None else [worker]:
        axis = run.archive.axis(name)
        mode = next(iter(axis.modes), "train")
        table = run.timeline("step", worker=name, phase=mode)
        positions = pa.array(axis.positions(table["step"].to_numpy(), mode), pa.int64())
        tables.append(table.set_column(table.column_names.index("step"), "step", positions))
    return pa.concat_tables(tables) if tables else run.timeline("step", worker=worker)


def _start_of_step(step: int, option: str, timeline: pa.Table, *, is_end: bool) -> int | None:
    """Return when the first worker began the step, or the next recorded one; None for an end after the last step."""
    later = timeline.filter(pc.greater_equal(timeline["step"], step))
    if len(later):
        return int(pc.min(later.filter(pc.equal(later["step"], pc.min(later["step"])))["start_ns"]).as_py())
    if is_end:
        return None
    last = pc.max(timeline["step"]).as_py()
    known = "no step was recorded" if last is None else f"the last recorded step is {last:,}"
    raise NotCapturedError(f"{option} {step}: the run has no such step; {known}")
