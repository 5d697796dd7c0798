"""Phases of a job: initialization, training loop, finalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import StepTable
from leadline.analysis.time_document import JobDocument, JobPart
from leadline.records.documents import RunStatus
from leadline.records.names import JOB_ENDED

_MIN_NS: Final = 10_000_000_000
_MIN_STEPS: Final = 20
"""The minimum duration of a pause, in median steps."""

_SPLIT = ("imports", "setup", "first_step")


@dataclass(frozen=True, slots=True)
class JobPhases:
    """The duration of each phase of a job.

    Units:
        Seconds; times in ns since the epoch.
    """

    started_ns: int
    ended_ns: int
    loop_started_ns: int | None
    """When the first step of any worker started; None if there was no step."""
    loop_ended_ns: int | None
    """When the last step ended."""
    split: dict[str, float]
    """The parts of the initialization: imports, setup and first step (which is part of the loop), of the slowest
    worker."""

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def initialization_seconds(self) -> float:
        return ((self.loop_started_ns or self.ended_ns) - self.started_ns) / 1e9

    @property
    def loop_seconds(self) -> float:
        if self.loop_started_ns is None or self.loop_ended_ns is None:
            return 0.0
        return (self.loop_ended_ns - self.loop_started_ns) / 1e9

    @property
    def finalization_seconds(self) -> float:
        return (self.ended_ns - (self.loop_ended_ns or self.ended_ns)) / 1e9

    def to_dict(self) -> JobDocument:
        """Return plain JSON values."""
        return {
            "started_ns": self.started_ns,
            "ended_ns": self.ended_ns,
            "loop_started_ns": self.loop_started_ns,
            "loop_ended_ns": self.loop_ended_ns,
            "seconds": self.seconds,
            "initialization": self._part(self.initialization_seconds),
            "training_loop": self._part(self.loop_seconds),
            "finalization": self._part(self.finalization_seconds),
            "split": self.split,
        }

    def _part(self, seconds: float) -> JobPart:
        return {"seconds": seconds, "share": seconds / self.seconds if self.seconds > 0 else None}


def read_job(timeline: pa.Table, steps: StepTable, *, started_ns: int, ended_ns: int | None) -> JobPhases:
    """Return the phases of a job.

    Args:
        started_ns: When the run started.
        ended_ns: When it ended; None if it is running, in which case its latest row is used.
    """
    latest = pc.max(pc.add(timeline["start_ns"], timeline["duration_ns"])).as_py()
    loop = (int(steps.start_ns.min()), int((steps.start_ns + steps.duration_ns).max())) if len(steps) else None
    return job_of(timeline, loop, latest_ns=latest, started_ns=started_ns, ended_ns=ended_ns)


def job_of(
    events: pa.Table, loop: tuple[int, int] | None, *, latest_ns: int | None, started_ns: int, ended_ns: int | None
) -> JobPhases:
    """Return the phases of a job.

    Args:
        events: Rows of the timeline, including those of the startup.
        loop: The start of the first step and the end of the last.
        latest_ns: The end of the latest row of the timeline.
    """
    latest = latest_ns if ended_ns is None else None
    ended = max(time_ns for time_ns in (ended_ns, started_ns, latest) if time_ns is not None)
    split = {}
    for name in _SPLIT:
        longest = pc.max(events.filter(pc.equal(events["name"], name))["duration_ns"]).as_py()
        if longest is not None:
            split[name] = longest / 1e9
    if loop is None:
        return JobPhases(started_ns, ended, None, None, split)
    first, last = loop
    return JobPhases(started_ns, ended, max(first, started_ns), min(max(last, started_ns), ended), split)


def interruptions(status: RunStatus, steps: pa.Table) -> list[tuple[int, int]]:
    """Return start and end of each interruption, ns since the epoch, in order.

    Args:
        status: The run's status document, with its transitions.
        steps: As returned by ``Digest.steps``.
    """
    return sorted({*_between_ends(status), *_pauses(steps)})


def _between_ends(status: RunStatus) -> list[tuple[int, int]]:
    """Return the intervals from an end of the run to its resumption."""
    intervals, ended = [], None
    for transition in status.transitions:
        if transition.status in JOB_ENDED:
            ended = ended or transition.time_ns
        elif ended is not None:
            intervals.append((ended, transition.time_ns))
            ended = None
    return intervals


def _pauses(steps: pa.Table) -> list[tuple[int, int]]:
    """Return the intervals in which no worker was in a step of any mode."""
    if steps.num_rows < 2:
        return []
    order = np.argsort(steps["start_ns"].to_numpy(), kind="stable")
    starts, ends = steps["start_ns"].to_numpy()[order], np.maximum.accumulate(steps["end_ns"].to_numpy()[order])
    median_ns = float(np.median(steps["duration_ns"].to_numpy() / np.maximum(steps["count"].to_numpy(), 1)))
    gaps = starts[1:] - ends[:-1]
    gap_indices = np.flatnonzero(gaps > max(_MIN_NS, _MIN_STEPS * median_ns))
    return [(int(ends[index]), int(starts[index + 1])) for index in gap_indices]
