"""cProfile: calls, own and cumulative time and callers of every function, as tables."""

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
    """What ``probes.recording.Opener`` is for cProfile."""
    return PythonRecording(window, lambda: FunctionProfiler(window.timer), write_functions)


def off_cpu_seconds() -> float:
    """A clock that runs while the thread does not."""
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
    """Write ``functions.arrow`` and ``calls.arrow``; a batch of each for every slice.

    Raises:
        OSError: They could not be written.
    """
    functions = _segment(folder, layout.FUNCTIONS, FUNCTIONS)
    calls = _segment(folder, layout.CALLS, CALLS)
    for sequence, each in enumerate(slices):
        entries = each.profiler.profile.getstats()
        _append(functions, sequence, each, [_function(entry) for entry in entries])
        _append(calls, sequence, each, list(_edges(entries)))
    functions.close()
    calls.close()
    return (layout.FUNCTIONS, layout.CALLS)


def _segment(folder: str, name: str, schema: TableSchema) -> Segment:
    return Segment(os.path.join(folder, name), BatchEncoder(schema, {}))


def _append(segment: Segment, sequence: int, part: ProfileSlice, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    same = {"step": part.step, "mode": part.mode, "phase": part.phase, "start_ns": part.start_ns, "end_ns": part.end_ns}
    columns: dict[str, Any] = {}
    for name, kind in segment.schema.columns:
        values: list[Any] = [same[name]] * len(rows) if name in same else [row[name] for row in rows]
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
    """Who called whom."""
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
    """A function's name, file and line; of one that is not Python's, what cProfile calls it."""
    if isinstance(code, str):
        return {f"{prefix}function": code, f"{prefix}file": "", f"{prefix}line": 0}
    name = getattr(code, "co_qualname", code.co_name)
    return {f"{prefix}function": name, f"{prefix}file": code.co_filename, f"{prefix}line": code.co_firstlineno}


def _ns(seconds: float) -> int:
    return round(seconds * _SECOND_NS)
