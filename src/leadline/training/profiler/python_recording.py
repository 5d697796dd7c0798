"""Recordings of Python functions, one profile per phase and step: tables by cProfile, call trees by pyinstrument."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from leadline.instrumentation.recording import Finish, ProfileUnavailableError, Recording
from leadline.records.profile_window import ProfileWindow, Timer
from leadline.store import layout
from leadline.store.codec import CALLS, FUNCTIONS, BatchEncoder, TableSchema
from leadline.store.documents import write_document
from leadline.store.segments import Segment
from leadline.store.slice_tables import append_slice

FIRST_PHASE = "forward"
"""The first phase of a step: the loop's own code, the batch, the forward pass."""


class Profiler(Protocol):
    """A profiler of this thread."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """Stop, and keep the profile."""


@dataclass(frozen=True, slots=True)
class ProfileSlice:
    """The profile of one phase."""

    step: int
    """The global step; -1 for the process' start or end."""
    mode: str
    """The mode of the step; ``""`` for the process' start or end."""
    phase: str
    """``forward`` (with the loop's own code), ``backward``, ``optimizer``; ``start``, ``end``."""
    start_ns: int
    end_ns: int
    profiler: Any


class PythonRecording:
    """See ``leadline.instrumentation.recording.Recording``.

    Args:
        make: Makes a profiler; called once per slice.
        write: Writes the slices into a folder; returns the names of the files.
    """

    def __init__(
        self,
        window: ProfileWindow,
        make: Callable[[], Profiler],
        write: Callable[[str, Sequence[ProfileSlice]], Sequence[str]],
        *,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.notes: list[str] = []
        self._window, self._make, self._write = window, make, write
        self._wall_clock = wall_clock
        self._slices: list[ProfileSlice] = []
        self._running: tuple[int, str, int, Profiler] | None = None

    def begin(self, step: int) -> None:
        refuse_second_profiler()
        self._open(*((step, FIRST_PHASE) if self._window.part == "loop" else (-1, self._window.part)))

    def enter(self, step: int, ended: str) -> None:
        self._close()
        self._set_mode(ended)
        self._open(step, FIRST_PHASE)

    def mark(self, phase: str) -> None:
        if self._running is None or self._window.part != "loop":
            return
        step, current, _, _ = self._running
        if phase == current or any(part.step == step and part.phase == phase for part in self._slices):
            return  # micro-batches: the first backward pass of a step begins the phase
        self._close()
        self._open(step, phase)

    def end(self, step: int, ended: str) -> Finish:
        self._close()
        self._set_mode(ended)
        slices, self._slices = self._slices, []
        return lambda folder: self._write(folder, slices)

    def _open(self, step: int, phase: str) -> None:
        profiler = self._make()
        self._running = (step, phase, self._wall_clock(), profiler)
        profiler.start()

    def _close(self) -> None:
        if self._running is None:
            return
        step, phase, start_ns, profiler = self._running
        self._running = None
        try:
            profiler.stop()
        except RuntimeError as error:  # the script switched it off, or took it over
            self.notes.append(f"{phase} of step {step}: {error}")
            return
        self._slices.append(ProfileSlice(step, "", phase, start_ns, self._wall_clock(), profiler))

    def _set_mode(self, mode: str) -> None:
        """Set the mode of the step that has ended."""
        self._slices = [replace(part, mode=mode) if part.step >= 0 and not part.mode else part for part in self._slices]


def refuse_second_profiler() -> None:
    """Refuse to record beside another profiler of this thread: they would replace each other.

    Raises:
        ProfileUnavailableError: Another profiler is active.
    """
    monitoring = getattr(sys, "monitoring", None)
    has_tool = monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is not None
    if sys.getprofile() is not None or has_tool:
        raise ProfileUnavailableError("another Python profiler is active in this thread")


# --- cProfile ------------------------------------------------------------------------------------------------

_SECOND_NS: Final = 1_000_000_000


def open_functions(window: ProfileWindow) -> Recording:
    """Open a recording with cProfile; see ``leadline.instrumentation.recording.Opener``."""
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
        append_slice(functions, sequence, part, map(_function, entries))
        append_slice(calls, sequence, part, _edges(entries))
    functions.close()
    calls.close()
    return (layout.FUNCTIONS, layout.CALLS)


def _segment(folder: str, name: str, schema: TableSchema) -> Segment:
    return Segment(os.path.join(folder, name), BatchEncoder(schema, {}))


def _function(entry: Any) -> dict[str, int | str]:
    return {
        **_place(entry.code, ""),
        "calls": entry.callcount,
        "primitive_calls": entry.callcount - entry.reccallcount,
        "own_ns": _ns(entry.inlinetime),
        "cumulative_ns": _ns(entry.totaltime),
    }


def _edges(entries: Sequence[Any]) -> Iterator[dict[str, int | str]]:
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


def _place(code: Any, prefix: str) -> dict[str, int | str]:
    """Return name, file and line of a function; a function not written in Python has only cProfile's name for it."""
    if isinstance(code, str):
        return {f"{prefix}function": code, f"{prefix}file": "", f"{prefix}line": 0}
    name = getattr(code, "co_qualname", code.co_name)
    return {f"{prefix}function": name, f"{prefix}file": code.co_filename, f"{prefix}line": code.co_firstlineno}


def _ns(seconds: float) -> int:
    return round(seconds * _SECOND_NS)


# --- pyinstrument --------------------------------------------------------------------------------------------

INTERVAL_SECONDS: Final = 0.001


def open_callstacks(window: ProfileWindow) -> Recording:
    """Open a recording with pyinstrument; see ``leadline.instrumentation.recording.Opener``.

    Raises:
        ProfileUnavailableError: pyinstrument is not installed in the training's environment.
    """
    try:
        import pyinstrument
    except ImportError:
        raise ProfileUnavailableError(
            "pyinstrument is not installed in the training's environment: pip install 'leadline[python-profiles]'"
        ) from None
    return PythonRecording(window, lambda: StackProfiler(pyinstrument), write_callstacks)


class StackProfiler:
    """pyinstrument in the training's thread."""

    def __init__(self, library: Any) -> None:
        self._profiler = library.Profiler(interval=INTERVAL_SECONDS, async_mode="disabled")
        self.session: Any = None

    def start(self) -> None:
        self._profiler.start()

    def stop(self) -> None:
        self.session = self._profiler.stop()


def write_callstacks(folder: str, slices: Sequence[ProfileSlice]) -> Sequence[str]:
    """Write one file per slice: its time, and the session of pyinstrument.

    Raises:
        OSError: A file cannot be written.
    """
    names = []
    for index, part in enumerate(slices):
        name = layout.callstacks(index)
        document = {
            "step": part.step,
            "mode": part.mode,
            "phase": part.phase,
            "start_ns": part.start_ns,
            "end_ns": part.end_ns,
            "session": part.profiler.session.to_json(),
        }
        write_document(os.path.join(folder, name), document)
        names.append(name)
    return names
