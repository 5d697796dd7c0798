"""Phases of a job: initialization, training loop, finalization."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import StepTable

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        parts = {
            "initialization": self.initialization_seconds,
            "training_loop": self.loop_seconds,
            "finalization": self.finalization_seconds,
        }
        whole = self.seconds
        return {
            **{key: value for key, value in asdict(self).items() if key != "split"},
            "seconds": whole,
            **{
                name: {"seconds": seconds, "share": seconds / whole if whole > 0 else None}
                for name, seconds in parts.items()
            },
            "split": self.split,
        }


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
