"""What the workers of a run did, as tracks of a trace."""

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
from leadline.reader.profiles import Profiles
from leadline.reader.python_profiles import CallTrees, FunctionTables
from leadline.reader.recorded_window import RecordedWindow
from leadline.reader.tables import only
from leadline.reader.traces import read_slices

if TYPE_CHECKING:
    from leadline.reader.run import Run

_ROWS: Final = 4096
"""So many rows of a table are Python objects at a time."""
_MOST_FUNCTIONS: Final = 20
_TRACKS: Final = {
    "step": "steps",
    "data": "phases",
    "forward": "phases",
    "backward": "phases",
    "optimizer": "phases",
    "collective": "collectives",
    "checkpoint": "checkpoints",
    **dict.fromkeys(("imports", "setup", "first_step", "finalization"), "start and end"),
}
TRACKS: Final = ("start and end", "steps", "phases", "collectives", "checkpoints", "events")
"""Of a worker, in the order in which they are shown."""


def put_workers(trace: Trace, run: Run, span: Span) -> list[str]:
    """Write a process for each worker; a line for each window that could not be read."""
    lost: list[str] = []
    profiles = Profiles(run.path)
    documents, horovod, known = run.worker_documents(), run.horovod(), profiles.windows()
    for worker in sorted({*run.workers(), *run.archive.timeline, *(each.worker for each in known)}):
        document = documents.get(worker, {})
        parts = (document.get("node") and f"on {document['node']}", document.get("framework"))
        pid = trace.process(worker, ", ".join(part for part in parts if part))
        _put_timeline(trace, pid, run.timeline(worker=worker, start_ns=span.start_ns, end_ns=span.end_ns))
        windows = [each for each in known if each.worker == worker and _is_meant(each, span)]
        lost += _put_windows(trace, pid, profiles, windows, span)
        _put_horovod(trace, pid, only(horovod, worker=worker), span)
    return lost


def _is_meant(window: RecordedWindow, span: Span) -> bool:
    return span.meets(window.document["start_ns"], window.document["end_ns"])


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, a few thousand at a time."""
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


def _put_timeline(trace: Trace, pid: int, table: pa.Table) -> None:
    ordered = table.sort_by([("start_ns", "ascending"), ("duration_ns", "descending")])
    names = table["name"].unique().to_pylist()
    for track in TRACKS:
        meant = pa.array([each for each in names if _TRACKS.get(each, "events") == track], pa.string())
        for row in rows_of(ordered.filter(pc.is_in(ordered["name"], meant))):
            _put_row(trace, pid, track, row)


def _put_horovod(trace: Trace, pid: int, table: pa.Table, span: Span) -> None:
    """Write a track for each tensor."""
    for row in rows_of(table):
        each = TraceSpan(row["activity"], row["start_ns"], row["duration_ns"], json.loads(row["args"]), "horovod")
        if span.meets(each.start_ns, each.end_ns):
            trace.put(pid, f"Horovod {row['tensor']}".rstrip(), [each])


def _put_row(trace: Trace, pid: int, track: str, row: Mapping[str, Any]) -> None:
    given = json.loads(row["args"] or "{}")
    args = {"step": row["step"], "phase": row["phase"], **given}
    if not row["duration_ns"] and track == "events":
        trace.mark(pid, track, row["name"], row["start_ns"], args)
        return
    name = row["name"]
    if name == "step":
        name = f"{row['phase']} {row['step']}"
    elif name == "collective":
        name = str(given.get("op") or name)
    trace.put(pid, track, [TraceSpan(name, row["start_ns"], row["duration_ns"], args, row["name"])])


# --- profiling windows --------------------------------------------------------------------------------------


def _put_windows(
    trace: Trace, pid: int, profiles: Profiles, windows: Iterable[RecordedWindow], span: Span
) -> list[str]:
    lost = []
    for window in windows:
        try:
            for track, slices in groupby(_WINDOWS[window.kind](profiles, window), lambda each: each[0]):
                trace.put(pid, track, (each for _, each in slices if span.meets(each.start_ns, each.end_ns)))
        except (LeadlineError, OSError, KeyError, ValueError) as error:
            lost.append(f"{window.worker} {window.id}: {error}")
    return lost


def _operators(profiles: Profiles, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    for each in read_slices(window.folder):
        args: dict[str, Any] = {"step": each.step, "mode": each.mode, "phase": each.phase}
        if each.module:
            args["module"] = each.module
        track = each.track if each.kind == "device" else f"operators, {each.track}"
        yield track, TraceSpan(each.name or "model", each.start_ns, each.duration_ns, args, each.kind)


def _functions(profiles: Profiles, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    found = _python(profiles, window)
    assert isinstance(found, FunctionTables)
    timer = window.document["timer"]
    for part, table in found.by_slice():
        functions = {
            f"{number:02d} {row['function']}": f"{row['own_ns'] / 1e6:.3f} ms itself, "
            f"{row['cumulative_ns'] / 1e6:.3f} ms with what it calls, {row['calls']:,} calls "
            f"({row['file']}:{row['line']})"
            for number, row in enumerate(table.slice(0, _MOST_FUNCTIONS).to_pylist(), 1)
        }
        args = {"step": part["step"], "phase": part["phase"], "timer": timer, **functions}
        length_ns = part["end_ns"] - part["start_ns"]
        yield "Python functions (cProfile)", TraceSpan(part["phase"], part["start_ns"], length_ns, args, "cprofile")


def _stacks(profiles: Profiles, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    found = _python(profiles, window)
    assert isinstance(found, CallTrees)
    track = "Python calls (pyinstrument)"
    for part, flames in found.flames():
        args = {"step": part["step"], "phase": part["phase"]}
        for each in flames:
            place = {**args, "file": each.file, "line": each.line}
            yield track, TraceSpan(each.function, each.start_ns, each.duration_ns, place, "pyinstrument")


def _python(profiles: Profiles, window: RecordedWindow) -> Any:
    document = window.document
    return profiles.python(
        kind=window.kind, timer=document["timer"], part=document["part"], window=window.id, worker=window.worker
    )


def _loading(profiles: Profiles, window: RecordedWindow) -> Iterator[tuple[str, TraceSpan]]:
    rows = profiles.loading(window=window.id, worker=window.worker).to_pylist()
    found = []
    for row in rows:
        track = "data loading" if row["worker_id"] is None else f"data loader worker {row['worker_id']}"
        args = {key: row[key] for key in ("step", "bytes", "batch_size", "ready", "pid") if row[key] is not None}
        found.append((track, TraceSpan(row["event"], row["start_ns"], row["duration_ns"], args, "dataloader")))
    yield from sorted(found, key=lambda each: (each[0], each[1].start_ns, -each[1].duration_ns))


_WINDOWS: Final[Mapping[str, Callable[[Profiles, RecordedWindow], Iterator[tuple[str, TraceSpan]]]]] = {
    "detailed": _operators,
    "cprofile": _functions,
    "pyinstrument": _stacks,
    "dataloader": _loading,
}
