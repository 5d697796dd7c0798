"""cProfile's statistics of a trial, written as profile windows of a run."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from leadline.records.formatting import counted
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.codec import CALLS, FUNCTIONS, BatchEncoder
from leadline.store.documents import make_folder, write_document
from leadline.store.run_files import read_regular
from leadline.store.segments import Segment
from leadline.store.slice_tables import append_slice
from leadline.trials.folder import DAMAGE, FRAMEWORK, MAX_BYTES, files_below, reason
from leadline.trials.marshal_data import read_marshaled
from leadline.trials.timeline import StepNumbers

_STATISTICS: Final = "python_stats"
_POINT: Final = r"(train|eval|predict|global|prestepzero|posthookclose)-(\d+|\*)-([a-z]+)-(\d+(?:\.\d+)?)"
_SLICE: Final = re.compile(f"{_POINT}_{_POINT}")
_LOOP_PHASES: Final = {"stepstart": "forward", "forwardpassend": "backward"}
"""The phases of a step by the point at which a slice starts; smdebug does not tell backward and optimizer apart."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """One dump of cProfile: its place, what it covers, and the rows of its statistics."""

    path: str
    step: int
    """The global step; -1 for the start and the end of the process."""
    mode: str
    part: str
    phase: str
    start_ns: int
    end_ns: int
    functions: list[dict[str, int | str]]
    calls: list[dict[str, int | str]]


def import_python_profiles(
    folder: str, run: str, worker_of: Callable[[str], str], numbers: StepNumbers, damage: list[str]
) -> int:
    """Import the statistics of cProfile; those of pyinstrument are reported as left out.

    Args:
        folder: The folder of the profiles.
        worker_of: Returns the worker of a process: ``18612-host``.
        damage: Receives a line for each file that cannot be read.
    Returns:
        The number of profile windows.
    """
    slices: dict[str, list[_Slice]] = {}
    sampled = 0
    for path in files_below(os.path.join(folder, FRAMEWORK)):
        *_, profiler, process, _, name = ("", "", "", *path.split(os.sep))
        sampled += profiler == "pyinstrument" and name.endswith(".json")
        if name == _STATISTICS and profiler == "cprofile":
            place = os.path.relpath(path, folder)
            try:
                slices.setdefault(process, []).append(_read(path, numbers))
            except DAMAGE as error:
                damage.append(f"{place} cannot be read ({reason(error)}); left out")
    if sampled:
        damage.append(f"{FRAMEWORK}: {counted(sampled, 'profile')} of pyinstrument left out; only cProfile's are read")
    windows = [(process, window) for process, parts in slices.items() for window in _windows(parts)]
    for index, (process, window) in enumerate(windows):
        try:
            _write(run, worker_of(process), f"cprofile-{index:03d}", window)
        except (OverflowError, struct.error) as error:  # numbers that no profile has
            damage.append(f"{FRAMEWORK}: a profile of {process} cannot be stored ({reason(error)}); left out")
    return len(windows)


def _read(path: str, numbers: StepNumbers) -> _Slice:
    match = _SLICE.fullmatch(os.path.basename(os.path.dirname(path)))
    if match is None:
        raise ValueError("its folder is not named <mode>-<step>-<phase>-<time>_<mode>-<step>-<phase>-<time>")
    mode, step, point, start_us, end_mode, _, _, end_us = match.groups()
    step_mode = numbers.mode(mode)
    statistics = read_marshaled(read_regular(path, MAX_BYTES))
    try:
        functions, calls = list(_functions(statistics)), list(_callers(statistics))
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError("it does not contain statistics of functions") from error
    part = "start" if mode == "prestepzero" and end_mode != "posthookclose" else "loop"
    part = "end" if end_mode == "posthookclose" else part
    is_loop = part == "loop" and step != "*"
    return _Slice(
        path,
        numbers.global_step(step_mode, int(step)) if is_loop else -1,
        step_mode if is_loop else "",
        part,
        _LOOP_PHASES.get(point, point) if is_loop else part,
        round(float(start_us) * 1000),
        round(float(end_us) * 1000),
        functions,
        calls,
    )


def _windows(slices: Sequence[_Slice]) -> Iterator[list[_Slice]]:
    """Yield the slices of each window: consecutive steps, the start and the end of the process."""
    window: list[_Slice] = []
    for part in sorted(slices, key=lambda part: part.start_ns):
        if window and (part.part != window[-1].part or part.step > window[-1].step + 1):
            yield window
            window = []
        window.append(part)
    if window:
        yield window


def _write(run: str, worker: str, name: str, slices: Sequence[_Slice]) -> None:
    folder = os.path.join(run, layout.profile(worker, name))
    make_folder(folder)
    with (
        closing(Segment(os.path.join(folder, layout.FUNCTIONS), BatchEncoder(FUNCTIONS, {}))) as functions,
        closing(Segment(os.path.join(folder, layout.CALLS), BatchEncoder(CALLS, {}))) as calls,
    ):
        for sequence, part in enumerate(slices):
            append_slice(functions, sequence, part, part.functions)
            append_slice(calls, sequence, part, part.calls)
    files = [layout.FUNCTIONS, layout.CALLS]
    first, last = slices[0], slices[-1]
    document = {
        **ProfileWindow("cprofile", part=first.part, id=name).to_dict(),  # type: ignore[arg-type]
        "worker": worker,
        "first_step": max(0, first.step),
        "end_step": last.step + 1,
        "start_ns": first.start_ns,
        "end_ns": last.end_ns,
        "written_ns": last.end_ns,
        "notes": ["imported; smdebug's second part of a step, backward pass and optimizer, is named backward"],
        "files": files,
        "bytes": sum(os.path.getsize(os.path.join(folder, file)) for file in files),
    }
    write_document(os.path.join(folder, layout.WINDOW), document)


def _functions(statistics: dict[Any, Any]) -> Iterator[dict[str, int | str]]:
    for function, (primitive_calls, calls, own, cumulative, _) in statistics.items():
        yield _place(function, "") | _times(calls, primitive_calls, own, cumulative)


def _callers(statistics: dict[Any, Any]) -> Iterator[dict[str, int | str]]:
    for function, (*_, callers) in statistics.items():
        for caller, (calls, primitive_calls, own, cumulative) in callers.items():
            places = _place(caller, "caller_") | _place(function, "")
            yield places | _times(calls, primitive_calls, own, cumulative)


def _place(function: Any, prefix: str) -> dict[str, int | str]:
    """Return file, line and name of a function; one that is not written in Python has no file."""
    file, line, name = function
    if file == "~":
        file, line = "", 0
    return {f"{prefix}function": str(name), f"{prefix}file": str(file), f"{prefix}line": int(line)}


def _times(calls: int, primitive_calls: int, own: float, cumulative: float) -> dict[str, int | str]:
    return {
        "calls": int(calls),
        "primitive_calls": int(primitive_calls),
        "own_ns": round(own * 1e9),
        "cumulative_ns": round(cumulative * 1e9),
    }
