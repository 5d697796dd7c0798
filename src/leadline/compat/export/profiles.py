"""Export of a run's timeline and Python profiles as smdebug's readers expect them, below ``framework``."""

from __future__ import annotations

import marshal
import os
from typing import TYPE_CHECKING, Any, Final

from leadline.compat.smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from leadline.compat.smdebug.profiler.analysis.python_stats_reader import LocalPythonStatsReader
from leadline.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import StepPythonProfileStats
from leadline.compat.smdebug.profiler.python_profile_utils import python_profile_mode_to_str
from leadline.records.json_object import JsonObject
from leadline.records.names import rank_of
from leadline.store.documents import make_folder, replace_file
from leadline.trials.folder import FRAMEWORK
from leadline.trials.trace_files import TraceFiles

if TYPE_CHECKING:
    from leadline.reader.run import Run

_MAX_BYTES: Final = 10 << 20
"""The size at which smdebug closes a trace file."""
_STATISTICS: Final = f"{FRAMEWORK}/leadline/cprofile"
_EVER_US: Final = 2**52


def export_profiles(run: Run, folder: str) -> tuple[int, int]:
    """Write the timeline of each worker, and the slices of cProfile's windows.

    Returns:
        The number of events and of slices.
    Raises:
        OSError: A file could not be written.
    """
    processes = _processes(run)
    return _export_timeline(run, folder, processes), _export_statistics(run, folder, processes)


def _processes(run: Run) -> dict[str, str]:
    """Return the workers as names of files have them: ``18612-algo-1``."""
    documents = run.worker_documents()
    nodes = sorted({document.node or "" for document in documents.values()})
    return {
        name: f"{document.pid or rank_of(name) or 0}-algo-{nodes.index(document.node or '') + 1}"
        for name, document in documents.items()
    }


def _export_timeline(run: Run, folder: str, processes: dict[str, str]) -> int:
    events = LocalAlgorithmMetricsReader(run.path).get_events(0, _EVER_US)
    files: dict[str, TraceFiles] = {}
    for event in events:
        process = processes.get(event.node_id, event.node_id.replace("_", "-"))
        if process not in files:
            files[process] = TraceFiles(folder, process, int(event.start_time))
        elif files[process].bytes > _MAX_BYTES:
            files[process].close()
        facts: JsonObject = event.event_args | {"pid": event.pid}
        files[process].put(
            event.event_phase, event.event_name, round(event.start_time), round(event.duration), facts=facts
        )
    for one in files.values():
        one.close()
    return len(events)


def _export_statistics(run: Run, folder: str, processes: dict[str, str]) -> int:
    profiles = LocalPythonStatsReader(run.path).load_python_profile_stats()
    for profile in profiles:
        process = processes.get(profile.node_id, profile.node_id.replace("_", "-"))
        path = os.path.join(folder, _STATISTICS, process, _place(profile), "python_stats")
        make_folder(os.path.dirname(path))
        with replace_file(path) as file:
            file.write(marshal.dumps(dict[Any, Any](profile.read())))
    return len(profiles)


def _place(profile: StepPythonProfileStats) -> str:
    """Return the name of the folder, which says what a profile covers."""
    points = (
        (profile.start_mode, profile.start_step, profile.start_phase, profile.start_time_since_epoch_in_micros),
        (profile.end_mode, profile.end_step, profile.end_phase, profile.end_time_since_epoch_in_micros),
    )
    return "_".join(
        f"{python_profile_mode_to_str(mode)}-{int(step) if 0 <= step < float('inf') else '*'}-{phase.value}-{micros}"
        for mode, step, phase, micros in points
    )
