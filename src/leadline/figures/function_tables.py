"""Tables of Python functions of a run's profiles."""

from __future__ import annotations

import pyarrow as pa

from leadline.figures.interval import Moment, parse_interval
from leadline.reader.python_profiles import Order
from leadline.reader.run import Run


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
