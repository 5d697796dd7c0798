"""What the readers of system metrics and timelines have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from leadline.compat.smdebug.profiler.utils import TimeUnits, convert_utc_timestamp_to_nanoseconds
from leadline.reader.run import Run, open_run

Event = TypeVar("Event")


class MetricsReaderBase(ABC, Generic[Event]):
    """Reads events of a run of Leadline, or of the profiles that smdebug wrote.

    Args:
        path: The run; of a job, the folder with ``profiler-output``, or that itself.
        use_in_memory_cache: Changes nothing.
    Raises:
        RunNotFoundError, ConfigurationError: There is neither at the path.

    Attributes:
        run: The run, as Leadline reads it.
    """

    def __init__(self, path: str | os.PathLike[str], use_in_memory_cache: bool = False) -> None:
        self._path = os.fspath(path)
        self.run: Run = open_run(self._path)

    def refresh_event_file_list(self) -> None:
        """Read what has been added."""
        self.run = open_run(self._path)

    def get_events(
        self,
        start_time: float,
        end_time: float,
        unit: TimeUnits = TimeUnits.MICROSECONDS,
        event_type: str | None = None,
        file_suffix_filter: list[str] | None = None,
    ) -> list[Event]:
        """Return the events that overlap a time interval, in order of time.

        Args:
            start_time, end_time: Since the epoch.
            event_type: Only those of this type: ``cpu``, ``gpu`` …; of a timeline, only those of this phase.
            file_suffix_filter: Changes nothing: a run has one timeline.
        """
        start_ns = convert_utc_timestamp_to_nanoseconds(start_time, unit)
        return self._read(start_ns, convert_utc_timestamp_to_nanoseconds(end_time, unit), event_type)

    def get_events_by_step(
        self,
        start_step: int,
        end_step: int,
        event_type: str | None = None,
        file_suffix_filter: list[str] | None = None,
    ) -> list[Event]:
        """Return the events between the start of a step and the end of another, both included; see ``get_events``."""
        rows = self.run.timeline("step", start_step=start_step, end_step=end_step + 1).to_pylist()
        if not rows:
            return []
        end_ns = max(row["start_ns"] + row["duration_ns"] for row in rows)
        return self._read(min(row["start_ns"] for row in rows), end_ns, event_type)

    def get_timestamp_of_first_available_file(self) -> int:
        """Return the time of the first event in microseconds since the epoch; 0 before it."""
        return self._bounds()[0] // 1000

    def get_timestamp_of_latest_available_file(self) -> int:
        """Return the time of the last event in microseconds since the epoch; 0 before the first."""
        return self._bounds()[1] // 1000

    @abstractmethod
    def _read(self, start_ns: int, end_ns: int, event_type: str | None) -> list[Event]:
        """Return the events of an interval."""

    @abstractmethod
    def _bounds(self) -> tuple[int, int]:
        """Return the times of the first and the last event in nanoseconds; zeros before the first."""
