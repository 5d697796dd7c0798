"""Finds the Python profiles that smdebug wrote, and those of runs of Leadline."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pyarrow.compute as pc

from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import (
    Place,
    Statistics,
    StepPythonProfileStats,
)
from leadline.compat.smdebug.profiler.profiler_constants import (
    CPROFILE_NAME,
    CPROFILE_STATS_FILENAME,
    PYINSTRUMENT_HTML_FILENAME,
    PYINSTRUMENT_JSON_FILENAME,
    PYINSTRUMENT_NAME,
)
from leadline.compat.smdebug.profiler.python_profile_utils import (
    PythonProfileModes,
    StepPhase,
    str_to_python_profile_mode,
)
from leadline.profiles.queries import read_windows
from leadline.profiles.recorded_window import RecordedWindow, read_table
from leadline.reader.table_rows import TableRow
from leadline.records.phases import DATA, FORWARD, HOST
from leadline.store import layout
from leadline.store.run_files import read_regular
from leadline.trials.folder import MAX_BYTES, files_below
from leadline.trials.marshal_data import read_marshaled
from leadline.trials.remote_trial import fetch_trial

_FILES: Final = {
    CPROFILE_STATS_FILENAME: CPROFILE_NAME,
    PYINSTRUMENT_JSON_FILENAME: PYINSTRUMENT_NAME,
    PYINSTRUMENT_HTML_FILENAME: PYINSTRUMENT_NAME,
}
"""The names of the files of profiles, and the profilers that write them."""
_POINT: Final = r"(train|eval|predict|global|prestepzero|posthookclose)-(\d+|\*)-([a-z]+)-(\d+(?:\.\d+)?)"
_FOLDER: Final = re.compile(f"{_POINT}_{_POINT}")
_BEFORE_FORWARD_END: Final = (DATA, HOST, FORWARD)


class PythonStatsReader(ABC):
    """Finds Python profiles."""

    @abstractmethod
    def load_python_profile_stats(self) -> list[StepPythonProfileStats]:
        """Return the profiles in order of their begin; a page of pyinstrument beside its call tree is one too."""


class LocalPythonStatsReader(PythonStatsReader):
    """Finds the Python profiles below a folder.

    Args:
        profile_dir: A folder that smdebug wrote: the one with a folder for each process, or one above it; or a run of
            Leadline.
    Raises:
        SMDebugValueError: There is no such folder.
    """

    def __init__(self, profile_dir: str | os.PathLike[str]) -> None:
        self.profile_dir = os.path.abspath(os.path.expanduser(os.fspath(profile_dir)))
        if not os.path.isdir(self.profile_dir):
            raise SMDebugValueError(f"{self.profile_dir}: there is no such folder; give that of the Python profiles")

    def load_python_profile_stats(self) -> list[StepPythonProfileStats]:
        is_run = layout.is_run(self.profile_dir)
        found = list(_of_run(self.profile_dir) if is_run else _of_files(self.profile_dir))
        return sorted(found, key=lambda one: (one.start_time_since_epoch_in_micros, one.node_id, one.stats_path))


class S3PythonStatsReader(PythonStatsReader):
    """Finds the Python profiles of a job in S3.

    Args:
        profile_dir: Changes nothing: they are copied into Leadline's cache.
        s3_path: The URI of ``profiler-output`` of a job, or of the job.
    """

    def __init__(self, profile_dir: str | os.PathLike[str], s3_path: str) -> None:
        self._uri = s3_path.strip().rstrip("/")

    def load_python_profile_stats(self) -> list[StepPythonProfileStats]:
        return LocalPythonStatsReader(fetch_trial(self._uri)).load_python_profile_stats()


# --- what smdebug wrote -----------------------------------------------------------------------------------


def _of_files(folder: str) -> Iterator[StepPythonProfileStats]:
    for path in files_below(folder):
        if os.path.basename(path) not in _FILES:
            continue
        *_, framework, _, process, place, name = ("", "", "", *path.split(os.sep))
        match = _FOLDER.fullmatch(place)
        if match is None:
            get_logger().info("%s is left out: its folder does not say what it covers", path)
            continue
        mode, step, phase, start_us, end_mode, end_step, end_phase, end_us = match.groups()
        try:
            phases = StepPhase(phase), StepPhase(end_phase)
        except ValueError:
            get_logger().info("%s is left out: its folder names an unknown phase", path)
            continue
        yield StepPythonProfileStats(
            profiler_name=_FILES[name],
            framework=framework,
            node_id=process,
            start_mode=str_to_python_profile_mode(mode),
            start_step=-1 if step == "*" else int(step),
            start_phase=phases[0],
            start_time_since_epoch_in_micros=float(start_us),
            end_mode=str_to_python_profile_mode(end_mode),
            end_step=float("inf") if end_step == "*" else int(end_step),
            end_phase=phases[1],
            end_time_since_epoch_in_micros=float(end_us),
            stats_path=path,
            read=partial(_read_file, path),
        )


def _read_file(path: str) -> Statistics:
    try:
        found: Statistics = read_marshaled(read_regular(path, MAX_BYTES))
    except ValueError as error:
        raise SMDebugValueError(f"{path} cannot be read: {error}") from None
    return found


# --- runs of Leadline -------------------------------------------------------------------------------------


def _of_run(run: str) -> Iterator[StepPythonProfileStats]:
    """Yield the slices of the profile windows of a run; of pyinstrument's there are no files."""
    for window in read_windows(run):
        if window.kind != CPROFILE_NAME:
            continue
        functions = read_table(window, layout.FUNCTIONS)
        keys = ["step", "mode", "phase", "start_ns", "end_ns"]
        for row in functions.group_by(keys).aggregate([]).select(keys).to_pylist():
            yield _slice(window, row, partial(_read_slice, window, int(row["start_ns"])))


def _slice(window: RecordedWindow, row: TableRow, read: Callable[[], Statistics]) -> StepPythonProfileStats:
    part, step = window.document["part"], int(row["step"])
    if part == "loop":
        mode = PythonProfileModes[row["mode"].upper()]
        is_first = row["phase"] in _BEFORE_FORWARD_END
        begin = (mode, float(step), StepPhase.STEP_START if is_first else StepPhase.FORWARD_PASS_END)
        end = (mode, float(step), StepPhase.FORWARD_PASS_END if is_first else StepPhase.STEP_END)
    elif part == "start":
        begin = (PythonProfileModes.PRE_STEP_ZERO, -1.0, StepPhase.START)
        end = (PythonProfileModes.TRAIN, 0.0, StepPhase.STEP_START)
    else:
        begin = (PythonProfileModes.TRAIN, float(window.document["first_step"]), StepPhase.STEP_END)
        end = (PythonProfileModes.POST_HOOK_CLOSE, float("inf"), StepPhase.END)
    return StepPythonProfileStats(
        profiler_name=CPROFILE_NAME,
        framework="leadline",
        node_id=window.worker,
        start_mode=begin[0],
        start_step=begin[1],
        start_phase=begin[2],
        start_time_since_epoch_in_micros=row["start_ns"] / 1000,
        end_mode=end[0],
        end_step=end[1],
        end_phase=end[2],
        end_time_since_epoch_in_micros=row["end_ns"] / 1000,
        stats_path=window.folder,
        read=read,
    )


def _read_slice(window: RecordedWindow, start_ns: int) -> Statistics:
    callers: dict[Place, dict[Place, tuple[int, int, float, float]]] = {}
    for row in _rows(window, layout.CALLS, start_ns):
        calls, primitive, own, cumulative = _times(row)
        callers.setdefault(_place(row, ""), {})[_place(row, "caller_")] = (calls, primitive, own, cumulative)
    found = {}
    for row in _rows(window, layout.FUNCTIONS, start_ns):
        calls, primitive, own, cumulative = _times(row)
        found[_place(row, "")] = (primitive, calls, own, cumulative, callers.get(_place(row, ""), {}))
    return found


def _rows(window: RecordedWindow, name: str, start_ns: int) -> list[TableRow]:
    table = read_table(window, name)
    rows: list[TableRow] = table.filter(pc.equal(table["start_ns"], start_ns)).to_pylist()
    return rows


def _times(row: TableRow) -> tuple[int, int, float, float]:
    return row["calls"], row["primitive_calls"], row["own_ns"] / 1e9, row["cumulative_ns"] / 1e9


def _place(row: TableRow, prefix: str) -> Place:
    """Return the place of a function as cProfile names it; one that is not written in Python has no file."""
    return row[f"{prefix}file"] or "~", row[f"{prefix}line"], row[f"{prefix}function"]
