"""What notebooks show beside charts: an interval, Python functions and the merged timeline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go
import pyarrow as pa

from leadline.charts import phases
from leadline.charts.chart import Moment, parse_interval, view_of
from leadline.exports.perfetto import ExportedTrace, export_trace
from leadline.profiles.python_profiles import Order
from leadline.reader.run import Run

__all__ = [
    "Selection",
    "functions_between_modes",
    "functions_by_step",
    "functions_by_time",
    "merged_timeline",
    "selection",
]
_MAX_BUCKETS: Final = 4000
"""Enough buckets to count the steps of usual intervals exactly."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Time breakdown of an interval.

    Units:
        Seconds, all workers together; shares of their sum.
    """

    start_ns: int
    end_ns: int
    seconds: dict[str, float]
    shares: dict[str, float]
    steps: int
    """Steps that ended within the interval, over all workers; aggregated steps count if they overlap it."""

    def figure(self) -> go.Figure:
        """Draw the shares as one bar."""
        return phases.shares(self.seconds)


def selection(run: Run, start: Moment = None, end: Moment = None, *, worker: str | None = None) -> Selection:
    """Return the time breakdown of an interval by training phase.

    Args:
        start, end: Steps (``120``), or times since the start of the run (``"90s"``); None: unbounded.
    """
    span, digest = parse_interval(run, start, end, worker), view_of(run).digest
    seconds = digest.phases(span.start_ns, span.end_ns, worker)
    total = sum(seconds.values())
    first, last = digest.span_ns()
    rows = digest.steps(worker, start_ns=span.start_ns, end_ns=span.end_ns, points=_MAX_BUCKETS)
    return Selection(
        first if span.start_ns is None else span.start_ns,
        last if span.end_ns is None else span.end_ns,
        seconds,
        {name: phase_seconds / total for name, phase_seconds in seconds.items()},
        sum(rows["count"].to_pylist()),
    )


def merged_timeline(
    run: Run, path: str | os.PathLike[str], *, start: Moment = None, end: Moment = None
) -> ExportedTrace:
    """Export system metrics, training phases and profiles as one trace for Perfetto.

    Args:
        path: ``….json`` or ``….json.gz``.
    """
    return export_trace(run, os.fspath(path), parse_interval(run, start, end))


def functions_by_step(
    run: Run,
    start: int | None = None,
    end: int | None = None,
    *,
    kind: str = "cprofile",
    timer: str = "total",
    mode: str | None = None,
    phase: str | None = None,
    by: Order = "own",
    limit: int | None = 20,
) -> pa.Table:
    """Return the Python functions with the most time in the steps ``start <= step < end``.

    Shape:
        One row per function: ``function, file, line, calls, primitive_calls, own_seconds, cumulative_seconds``.
    Raises:
        NotCapturedError: No such window was recorded.
    """
    step = None if start is None and end is None else (start or 0, 1 << 62 if end is None else end)
    return _in_seconds(run.python_profile(kind=kind, timer=timer, step=step, mode=mode, phase=phase).top(by, limit))


def functions_by_time(
    run: Run,
    start: Moment = None,
    end: Moment = None,
    *,
    kind: str = "cprofile",
    timer: str = "total",
    by: Order = "own",
    limit: int | None = 20,
) -> pa.Table:
    """Return the Python functions with the most time in an interval; same columns as ``functions_by_step``."""
    span = parse_interval(run, start, end)
    time_ns = (span.start_ns or 0, (1 << 62) if span.end_ns is None else span.end_ns)
    return _in_seconds(run.python_profile(kind=kind, timer=timer, time_ns=time_ns).top(by, limit))


def functions_between_modes(
    run: Run,
    first: str = "train",
    second: str = "eval",
    *,
    kind: str = "cprofile",
    timer: str = "total",
    by: Order = "own",
    limit: int | None = 20,
) -> pa.Table:
    """Return the Python functions with the most time in steps of one mode that follow a step of another.

    The columns are the same as those of ``functions_by_step``.
    """
    return _in_seconds(run.python_profile(kind=kind, timer=timer, between=(first, second)).top(by, limit))


def _in_seconds(table: pa.Table) -> pa.Table:
    """Convert times from ns to seconds."""
    names = {"own_ns": "own_seconds", "cumulative_ns": "cumulative_seconds"}
    columns = {
        names.get(name, name): [None if time is None else time / 1e9 for time in table[name].to_pylist()]
        if name in names
        else table[name]
        for name in table.column_names
    }
    return pa.table(columns)
