"""Python profiles by steps, times, modes and parts of a job, in smdebug's interface."""

from __future__ import annotations

import json
import os
import pstats
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.compat.smdebug.profiler.analysis.data_frames import import_pandas
from leadline.compat.smdebug.profiler.analysis.python_stats_reader import (
    LocalPythonStatsReader,
    PythonStatsReader,
    S3PythonStatsReader,
)
from leadline.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import (
    PyinstrumentStepStats,
    StepPythonProfileStats,
    cProfileStats,
    statistics_of,
)
from leadline.compat.smdebug.profiler.profiler_constants import (
    CONVERT_TO_MICROSECS,
    CPROFILE_NAME,
    PYINSTRUMENT_HTML_FILENAME,
    PYINSTRUMENT_JSON_FILENAME,
    PYINSTRUMENT_NAME,
)
from leadline.compat.smdebug.profiler.python_profile_utils import (
    PythonProfileModes,
    StepPhase,
    python_profile_mode_to_str,
)

Found = TypeVar("Found")


class PythonProfileAnalysis(ABC, Generic[Found]):
    """Selects Python profiles of one profiler.

    Each function reads the profiles again unless ``refresh_stats`` is False, and logs it if none is selected.

    Args:
        local_profile_dir: The folder of the profiles, or one above it; also a run of Leadline.
        s3_path: The URI of ``profiler-output`` of a job, which takes the place of the folder.
    Raises:
        SMDebugValueError: There is no such folder.

    Attributes:
        python_profile_stats: The profiles as they were read last, in order of time.
    """

    name: ClassVar[str]

    def __init__(
        self, local_profile_dir: str | os.PathLike[str] = "/tmp/python_stats", s3_path: str | None = None
    ) -> None:
        self.python_stats_reader: PythonStatsReader = (
            S3PythonStatsReader(local_profile_dir, s3_path) if s3_path else LocalPythonStatsReader(local_profile_dir)
        )
        self.python_profile_stats: list[StepPythonProfileStats] = []
        self._refresh(is_wanted=True)

    def fetch_profile_stats_by_step(
        self,
        start_step: int,
        end_step: int | None = None,
        mode: PythonProfileModes = PythonProfileModes.TRAIN,
        start_phase: StepPhase = StepPhase.STEP_START,
        end_phase: StepPhase = StepPhase.STEP_END,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Found | None:
        """Return the profiles of steps, the last included; None if there are none.

        Args:
            start_step, end_step: Global steps; without ``end_step``, only the first.
            mode: The mode in which a profile begins and ends.
            start_phase, end_phase: The points of the first and the last step.
            node_id: The process; ``any``: the first one.
        """
        last = start_step if end_step is None else end_step
        return self._fetch(
            node_id,
            lambda one: (
                one.has_start_and_end_mode(mode, mode)
                and one.in_step_interval(start_step, last, start_phase, end_phase)
            ),
            refresh_stats,
        )

    def fetch_profile_stats_by_time(
        self,
        start_time_since_epoch_in_secs: float,
        end_time_since_epoch_in_secs: float,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Found | None:
        """Return the profiles that overlap an interval of time; None if there are none."""
        start_us = start_time_since_epoch_in_secs * CONVERT_TO_MICROSECS
        end_us = end_time_since_epoch_in_secs * CONVERT_TO_MICROSECS
        return self._fetch(node_id, lambda one: one.in_time_interval(start_us, end_us), refresh_stats)

    fetch_python_profile_stats_by_step = fetch_profile_stats_by_step
    fetch_python_profile_stats_by_time = fetch_profile_stats_by_time
    """As the developer guide names them."""

    def fetch_profile_stats_between_modes(
        self,
        start_mode: PythonProfileModes,
        end_mode: PythonProfileModes,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Found | None:
        """Return the profiles that begin in a mode and end in another; None if there are none."""
        return self._fetch(node_id, lambda one: one.has_start_and_end_mode(start_mode, end_mode), refresh_stats)

    def fetch_pre_step_zero_profile_stats(self, node_id: str = "any", refresh_stats: bool = True) -> Found | None:
        """Return the profile from the start of the process to the first step; None if there is none."""
        return self._fetch(node_id, StepPythonProfileStats.has_pre_step_zero_profile_stats, refresh_stats)

    def fetch_post_hook_close_profile_stats(self, node_id: str = "any", refresh_stats: bool = True) -> Found | None:
        """Return the profile after the last step; None if there is none."""
        return self._fetch(node_id, StepPythonProfileStats.has_post_hook_close_profile_stats, refresh_stats)

    def list_profile_stats(self, refresh_stats: bool = True) -> Any:
        """Return a table of pandas with a row for each profile: where it begins and ends, and its file."""
        self._refresh(is_wanted=refresh_stats)
        columns = [name for name in StepPythonProfileStats.__slots__ if name != "read"]
        rows = [{name: getattr(one, name) for name in columns} for one in self.python_profile_stats]
        for row in rows:
            row |= {name: python_profile_mode_to_str(row[name]) for name in ("start_mode", "end_mode")}
        return import_pandas().DataFrame(rows, columns=columns)

    def list_available_node_ids(self, refresh_stats: bool = True) -> list[str]:
        """Return the processes that have profiles, in order."""
        self._refresh(is_wanted=refresh_stats)
        return sorted({one.node_id for one in self.python_profile_stats})

    def _fetch(
        self, node_id: str, is_selected: Callable[[StepPythonProfileStats], bool], refresh: bool
    ) -> Found | None:
        self._refresh(is_wanted=refresh)
        processes = [one.node_id for one in self.python_profile_stats]
        process = processes[0] if node_id == "any" and processes else node_id
        found = [one for one in self.python_profile_stats if one.node_id == process and is_selected(one)]
        if not found:
            get_logger().info("no profile of %s was selected", self.name)
            return None
        return self._combined(found)

    def _refresh(self, *, is_wanted: bool) -> None:
        if is_wanted:
            found = self.python_stats_reader.load_python_profile_stats()
            self.python_profile_stats = [one for one in found if one.profiler_name == self.name]

    @abstractmethod
    def _combined(self, stats: Sequence[StepPythonProfileStats]) -> Found:
        """Return what the profiles contain; there is at least one."""


class cProfileAnalysis(PythonProfileAnalysis[cProfileStats]):
    """Selects profiles of cProfile; their functions are added up."""

    name = CPROFILE_NAME

    def fetch_profile_stats_by_training_phase(
        self, node_id: str = "any", refresh_stats: bool = True
    ) -> dict[tuple[PythonProfileModes, PythonProfileModes], cProfileStats]:
        """Return the functions for each pair of modes in which profiles begin and end."""
        self._refresh(is_wanted=refresh_stats)
        found = {}
        for pair in sorted({(one.start_mode, one.end_mode) for one in self.python_profile_stats}):
            stats = self.fetch_profile_stats_between_modes(*pair, node_id=node_id, refresh_stats=False)
            if stats is not None:
                found[pair] = stats
        return found

    def fetch_profile_stats_by_job_phase(
        self, node_id: str = "any", refresh_stats: bool = True
    ) -> dict[str, cProfileStats]:
        """Return the functions of ``initialization``, ``training_loop`` and ``finalization``, as far as profiled."""
        found: dict[str, list[cProfileStats]] = {}
        for (start, end), stats in self.fetch_profile_stats_by_training_phase(node_id, refresh_stats).items():
            phase = "training_loop"
            if end is PythonProfileModes.POST_HOOK_CLOSE:
                phase = "finalization"
            elif start is PythonProfileModes.PRE_STEP_ZERO:
                phase = "initialization"
            found.setdefault(phase, []).append(stats)
        return {phase: _sum([one.ps for one in known]) for phase, known in found.items()}

    def _combined(self, stats: Sequence[StepPythonProfileStats]) -> cProfileStats:
        parts = []
        for one in stats:
            part = pstats.Stats()
            part.stats = dict(one.read())  # type: ignore[attr-defined]
            part.get_top_level_stats()
            parts.append(part)
        return _sum(parts)


def _sum(parts: Sequence[pstats.Stats]) -> cProfileStats:
    whole = pstats.Stats()
    for part in parts:
        if statistics_of(part):
            whole.add(part)
    return cProfileStats(whole)


class PyinstrumentAnalysis(PythonProfileAnalysis[list[PyinstrumentStepStats]]):
    """Selects profiles of pyinstrument that smdebug wrote; ``run.python_profile`` reads those of Leadline's runs."""

    name = PYINSTRUMENT_NAME

    def _combined(self, stats: Sequence[StepPythonProfileStats]) -> list[PyinstrumentStepStats]:
        folders = dict.fromkeys(os.path.dirname(one.stats_path) for one in stats)
        return [_call_tree(folder) for folder in folders]


def _call_tree(folder: str) -> PyinstrumentStepStats:
    path, page = os.path.join(folder, PYINSTRUMENT_JSON_FILENAME), os.path.join(folder, PYINSTRUMENT_HTML_FILENAME)
    try:
        with open(path, encoding="utf-8") as file:
            tree = json.load(file)
    except (OSError, ValueError) as error:
        raise SMDebugValueError(f"{path} cannot be read as JSON: {error}") from None
    return PyinstrumentStepStats(page if os.path.exists(page) else "", tree)
