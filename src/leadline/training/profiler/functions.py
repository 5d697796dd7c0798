"""Tables of Python function calls of profile windows, by cProfile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from leadline.records.profile_window import ProfileWindow, Timer
from leadline.store import layout
from leadline.store.codec import CALLS, FUNCTIONS, BatchEncoder, TableSchema, int64_buffer
from leadline.store.segments import Segment
from leadline.training.profiler.python_recording import ProfileSlice, PythonRecording
from leadline.training.recording import Recording

_SECOND_NS: Final = 1_000_000_000


def open_functions(window: ProfileWindow) -> Recording:
    """Open a recording with cProfile; see ``leadline.training.recording.Opener``."""
    return PythonRecording(window, lambda: FunctionProfiler(window.timer), write_functions)


def off_cpu_seconds() -> float:
    """Return the time that this thread has spent off the CPU."""
    return time.perf_counter() - time.thread_time()


_CLOCKS: Final[dict[Timer, Callable[[], float] | None]] = {
    "total": None,
    "cpu": time.thread_time,
    "off_cpu": off_cpu_seconds,
}


class FunctionProfiler:
    """cProfile in the training's thread."""

    def __init__(self, timer: Timer) -> None:
        import cProfile

        clock = _CLOCKS[timer]
        self.profile = cProfile.Profile() if clock is None else cProfile.Profile(clock)

    def start(self) -> None:
        self.profile.enable()

    def stop(self) -> None:
        self.profile.disable()


def write_functions(folder: str, slices: Sequence[ProfileSlice]) -> Sequence[str]:
    """Write ``functions.arrow`` and ``calls.arrow``, each with one batch per slice.

    Raises:
        OSError: They cannot be written.
    """
    functions = _segment(folder, layout.FUNCTIONS, FUNCTIONS)
    calls = _segment(folder, layout.CALLS, CALLS)
    for sequence, part in enumerate(slices):
        entries = part.profiler.profile.getstats()
        _append(functions, sequence, part, [_function(entry) for entry in entries])
        _append(calls, sequence, part, list(_edges(entries)))
    functions.close()
    calls.close()
    return (layout.FUNCTIONS, layout.CALLS)


def _segment(folder: str, name: str, schema: TableSchema) -> Segment:
    return Segment(os.path.join(folder, name), BatchEncoder(schema, {}))


def _append(segment: Segment, sequence: int, part: ProfileSlice, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    constant = {
        "step": part.step,
        "mode": part.mode,
        "phase": part.phase,
        "start_ns": part.start_ns,
        "end_ns": part.end_ns,
    }
    columns: dict[str, Any] = {}
    for name, kind in segment.schema.columns:
        values: list[Any] = [constant[name]] * len(rows) if name in constant else [row[name] for row in rows]
        columns[name] = int64_buffer(values) if kind == "int64" else values
    segment.append(sequence, len(rows), columns)


def _function(entry: Any) -> dict[str, Any]:
    return {
        **_place(entry.code, ""),
        "calls": entry.callcount,
        "primitive_calls": entry.callcount - entry.reccallcount,
        "own_ns": _ns(entry.inlinetime),
        "cumulative_ns": _ns(entry.totaltime),
    }


def _edges(entries: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Iterate over the calls by caller and callee."""
    for caller in entries:
        for callee in caller.calls or ():
            yield {
                **_place(caller.code, "caller_"),
                **_place(callee.code, ""),
                "calls": callee.callcount,
                "primitive_calls": callee.callcount - callee.reccallcount,
                "own_ns": _ns(callee.inlinetime),
                "cumulative_ns": _ns(callee.totaltime),
            }


def _place(code: Any, prefix: str) -> dict[str, Any]:
    """Return name, file and line of a function; a function not written in Python has only cProfile's name for it."""
    if isinstance(code, str):
        return {f"{prefix}function": code, f"{prefix}file": "", f"{prefix}line": 0}
    name = getattr(code, "co_qualname", code.co_name)
    return {f"{prefix}function": name, f"{prefix}file": code.co_filename, f"{prefix}line": code.co_firstlineno}


def _ns(seconds: float) -> int:
    return round(seconds * _SECOND_NS)
