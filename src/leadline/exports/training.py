"""Export of the workers' timelines and profile windows as tracks of a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import LeadlineError
from leadline.exports.span import Span
from leadline.exports.trace import Trace, TraceSpan
from leadline.profiles.python_profiles import CallTrees, FunctionTables
from leadline.profiles.queries import read_windows
from leadline.profiles.recorded_window import RecordedWindow
from leadline.profiles.traces import read_slices
from leadline.reader.step_axis import StepAxis
from leadline.reader.table_rows import TableRow
from leadline.reader.tables import filter_equal
from leadline.records.documents import WorkerDocument
from leadline.records.names import MODES

if TYPE_CHECKING:
    from leadline.reader.run import Run

_ROWS: Final = 4096
"""Number of table rows that are converted to Python objects at a time."""
_MAX_FUNCTIONS: Final = 20
_TRACKS: Final = {
    "step": "steps",
    "data": "phases",
    "forward": "phases",
    "backward": "phases",
    "optimizer": "phases",
    "compute": "phases",
    "collective": "collectives",
    "checkpoint": "checkpoints",
    **dict.fromkeys(("imports", "setup", "first_step", "finalization"), "start and end"),
}
TRACKS: Final = ("start and end", "steps", "phases", "collectives", "checkpoints", "events")
"""Tracks of a worker, in display order."""


def write_workers(trace: Trace, run: Run, span: Span) -> list[str]:
    """Write one process for each worker; return one line for each window that could not be read."""
    lost: list[str] = []
    documents, horovod, known = run.worker_documents(), run.horovod(), read_windows(run.path)
    for worker in sorted({*run.workers(), *run.archive.timeline, *(window.worker for window in known)}):
        document = documents.get(worker, WorkerDocument())
        parts = (f"on {document.node}" if document.node else "", document.framework)
        pid = trace.process(worker, ", ".join(part for part in parts if part))
        timeline = run.timeline(worker=worker, start_ns=span.start_ns, end_ns=span.end_ns)
        _put_timeline(trace, pid, timeline, run.archive.axis(worker))
        windows = [window for window in known if window.worker == worker and _overlaps(window, span)]
        lost += _put_windows(trace, pid, run, windows, span)
        _put_horovod(trace, pid, filter_equal(horovod, worker=worker), span)
    return lost


def _overlaps(window: RecordedWindow, span: Span) -> bool:
    return span.overlaps(window.document["start_ns"], window.document["end_ns"])


def rows_of(table: pa.Table) -> Iterator[TableRow]:
    """Yield the rows of a table, converted in chunks."""
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


def _put_timeline(trace: Trace, pid: int, table: pa.Table, axis: StepAxis) -> None:
    ordered = table.sort_by([("start_ns", "ascending"), ("duration_ns", "descending")])
    names = table["name"].unique().to_pylist()
    for track in TRACKS:
        selected = pa.array([name for name in names if _TRACKS.get(name, "events") == track], pa.string())
        for row in rows_of(ordered.filter(pc.is_in(ordered["name"], selected))):
            mode = row["phase"] if row["phase"] in MODES else "train"
            _put_row(trace, pid, track, {**row, "step": axis.mode_step(row["step"], mode)})


def _put_horovod(trace: Trace, pid: int, table: pa.Table, span: Span) -> None:
    """Write one track for each tensor."""
    for row in rows_of(table):
        slice_ = TraceSpan(row["activity"], row["start_ns"], row["duration_ns"], json.loads(row["args"]), "horovod")
        if span.overlaps(slice_.start_ns, slice_.end_ns):
            trace.put(pid, f"Horovod {row['tensor']}".rstrip(), [slice_])


def _put_row(trace: Trace, pid: int, track: str, row: Mapping[str, Any]) -> None:
    details = json.loads(row["args"] or "{}")
    args = {"step": row["step"], "phase": row["phase"], **details}
    if not row["duration_ns"] and track == "events":
        trace.mark(pid, track, row["name"], row["start_ns"], args)
        return
    name = row["name"]
    if name == "step":
        name = f"{row['phase']} {row['step']}"
    elif name == "collective":
        name = str(details.get("op") or name)
    trace.put(pid, track, [TraceSpan(name, row["start_ns"], row["duration_ns"], args, row["name"])])


# --- profiling windows --------------------------------------------------------------------------------------


def _put_windows(trace: Trace, pid: int, run: Run, windows: Iterable[RecordedWindow], span: Span) -> list[str]:
    lost = []
    for window in windows:
        try:
            for track, slices in groupby(_WINDOWS[window.kind](run, window), lambda entry: entry[0]):
                trace.put(pid, track, (slice_ for _, slice_ in slices if span.overlaps(slice_.start_ns, slice_.end_ns)))
        except (LeadlineError, OSError, KeyError, ValueError) as error:
            lost.append(f"{window.worker} {window.id}: {error}")
    return lost


def _operators(run: Run, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    for slice_ in read_slices(window.folder):
        args: dict[str, object] = {"step": slice_.step, "mode": slice_.mode, "phase": slice_.phase}
        if slice_.module:
            args["module"] = slice_.module
        track = slice_.track if slice_.kind == "device" else f"operators, {slice_.track}"
        yield track, TraceSpan(slice_.name or "model", slice_.start_ns, slice_.duration_ns, args, slice_.kind)


def _functions(run: Run, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    tables = _python(run, window)
    assert isinstance(tables, FunctionTables)
    timer = window.document["timer"]
    for part, table in tables.by_slice():
        functions = {
            f"{number:02d} {row['function']}": f"{row['own_ns'] / 1e6:.3f} ms itself, "
            f"{row['cumulative_ns'] / 1e6:.3f} ms with what it calls, {row['calls']:,} calls "
            f"({row['file']}:{row['line']})"
            for number, row in enumerate(table.slice(0, _MAX_FUNCTIONS).to_pylist(), 1)
        }
        args = {"step": part["step"], "phase": part["phase"], "timer": timer, **functions}
        length_ns = part["end_ns"] - part["start_ns"]
        yield "Python functions (cProfile)", TraceSpan(part["phase"], part["start_ns"], length_ns, args, "cprofile")


def _stacks(run: Run, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    trees = _python(run, window)
    assert isinstance(trees, CallTrees)
    track = "Python calls (pyinstrument)"
    for part, flames in trees.flames():
        args = {"step": part["step"], "phase": part["phase"]}
        for frame in flames:
            location = {**args, "file": frame.file, "line": frame.line}
            yield track, TraceSpan(frame.function, frame.start_ns, frame.duration_ns, location, "pyinstrument")


def _python(run: Run, window: RecordedWindow) -> Any:
    document = window.document
    return run.python_profile(
        kind=window.kind, timer=document["timer"], part=document["part"], window=window.id, worker=window.worker
    )


def _loading(run: Run, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    rows = run.data_loading(window=window.id, worker=window.worker).to_pylist()
    slices = []
    for row in rows:
        track = "data loading" if row["worker_id"] is None else f"data loader worker {row['worker_id']}"
        args = {key: row[key] for key in ("step", "bytes", "batch_size", "ready", "pid") if row[key] is not None}
        slices.append((track, TraceSpan(row["event"], row["start_ns"], row["duration_ns"], args, "dataloader")))
    yield from sorted(slices, key=lambda entry: (entry[0], entry[1].start_ns, -entry[1].duration_ns))


_WINDOWS: Final[Mapping[str, Callable[[Run, RecordedWindow], Iterator[tuple[str, TraceSpan]]]]] = {
    "detailed": _operators,
    "cprofile": _functions,
    "pyinstrument": _stacks,
    "dataloader": _loading,
}
