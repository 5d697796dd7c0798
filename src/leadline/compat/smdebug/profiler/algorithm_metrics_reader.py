"""Readers of timelines, in smdebug's interface."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Final

from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase
from leadline.reader.table_rows import TimelineRow
from leadline.records.json_object import JsonObject
from leadline.records.phases import BACKWARD, DATA, FORWARD, STEP

_PHASES: Final = {FORWARD: "Forward", BACKWARD: "Backward(post-forward)", DATA: "DataLoaderIter::GetNext"}
"""smdebug's phases by Leadline's; other phases and events keep their name."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One phase or event of a timeline; times are microseconds since the epoch."""

    event_name: str
    event_phase: str
    start_time: float
    end_time: float
    node_id: str
    """The worker, or the process of a trial."""
    tid: int
    pid: int
    event_args: JsonObject = field(default_factory=dict)
    """``step_num`` is the global step; absent between the steps."""
    phase: str = "X"

    @property
    def duration(self) -> float:
        """The duration in microseconds."""
        return self.end_time - self.start_time


class AlgorithmMetricsReader(MetricsReaderBase[TraceEvent]):
    """Reads the phases and events of a timeline; see ``MetricsReaderBase``."""

    def _read(self, start_ns: int, end_ns: int, event_type: str | None) -> list[TraceEvent]:
        rows = self.run.timeline(start_ns=start_ns - 1, end_ns=end_ns + 1).to_pylist()
        pids = {name: document.pid or 0 for name, document in self.run.worker_documents().items()}
        events = [_event(row, pids.get(row["worker"], 0)) for row in rows]
        return [event for event in events if event_type in (None, event.event_phase)]

    def _bounds(self) -> tuple[int, int]:
        rows = self.run.timeline()
        starts, durations = rows.column("start_ns").to_pylist(), rows.column("duration_ns").to_pylist()
        if not starts:
            return 0, 0
        return starts[0], max(start + duration for start, duration in zip(starts, durations, strict=True))


class LocalAlgorithmMetricsReader(AlgorithmMetricsReader):
    """Reads the timeline of a local folder."""

    def __init__(self, trace_root_folder: str | os.PathLike[str], use_in_memory_cache: bool = False) -> None:
        super().__init__(trace_root_folder, use_in_memory_cache)


class S3AlgorithmMetricsReader(AlgorithmMetricsReader):
    """Reads the timeline of a run of Leadline in S3."""

    def __init__(self, s3_trial_path: str, use_in_memory_cache: bool = False) -> None:
        super().__init__(s3_trial_path, use_in_memory_cache)


def _event(row: TimelineRow, pid: int) -> TraceEvent:
    args = json.loads(row["args"] or "{}")
    is_step = row["name"] == STEP
    phase = f"Step:ModeKeys.{row['phase'].upper()}" if is_step else _PHASES.get(row["name"], row["name"])
    name = str(args.pop("event", phase))
    if row["step"] >= 0:
        args["step_num"] = row["step"]
    start_us = row["start_ns"] / 1000
    return TraceEvent(
        name, phase, start_us, start_us + row["duration_ns"] / 1000, row["worker"], row["thread"], pid, args
    )
