"""System metrics and timelines as tables of pandas, in smdebug's interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from leadline.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader, TraceEvent
from leadline.compat.smdebug.profiler.analysis.data_frames import import_pandas
from leadline.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader, SystemProfilerEvent

_FRAMEWORK: Final = (
    *("start_time", "end_time", "start_time_us", "end_time_us", "tid", "pid"),
    *("framework_metric", "step", "bytes", "process", "nodeID"),
)
_SYSTEM: Final = ("timestamp", "timestamp_us", "value", "system_metric", "dimension", "nodeID", "type")
_EVER: Final = 2**62
"""A time in nanoseconds that nothing reaches."""
_NAMES: Final = ("layer_name", "name")
"""Arguments of an event that name it more closely."""


class PandasFrame:
    """The system metrics and the timeline of a run, or of the profiles that smdebug wrote, as tables.

    Args:
        path: See ``MetricsReaderBase``.
        use_in_memory_cache, scan_interval: Change nothing.
    Raises:
        MissingExtraError: pandas is not installed.

    Attributes:
        start_time: The time of the first sample in microseconds since the epoch; ``_us`` columns count from it.
    """

    def __init__(
        self, path: str | os.PathLike[str], use_in_memory_cache: bool = False, scan_interval: int = 5_000_000_000
    ) -> None:
        self._pandas = import_pandas()
        self.system_metrics_reader, self.framework_metrics_reader = (
            SystemMetricsReader(path),
            AlgorithmMetricsReader(path),
        )
        readers = self.system_metrics_reader, self.framework_metrics_reader
        starts = [reader.get_timestamp_of_first_available_file() for reader in readers]
        self.start_time = min((start for start in starts if start), default=0)

    def get_all_system_metrics(self, selected_system_metrics: Sequence[str] = ()) -> Any:
        """Return a row for each sample: ``timestamp, timestamp_us, value, system_metric, dimension, nodeID, type``.

        Args:
            selected_system_metrics: Only metrics of these names, ``cpu0`` or ``gpu1``; empty: all.
        """
        return self._system(self.system_metrics_reader.get_events(0, _EVER // 1000), selected_system_metrics)

    def get_all_framework_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return a row for each event of the timeline.

        Its columns are ``start_time, end_time, start_time_us, end_time_us, tid, pid, framework_metric, step, bytes,
        process`` and ``nodeID``; ``step`` is -1 between the steps.

        Args:
            selected_framework_metrics: Only events of these names or phases; empty: all.
        """
        return self._framework(self.framework_metrics_reader.get_events(0, _EVER // 1000), selected_framework_metrics)

    def get_profiler_data_by_time(
        self,
        start_time_us: float,
        end_time_us: float,
        cache_metrics: bool = False,
        selected_framework_metrics: Sequence[str] = (),
        selected_system_metrics: Sequence[str] = (),
        get_framework_metrics: bool = True,
        get_system_metrics: bool = True,
    ) -> tuple[Any, Any]:
        """Return both tables of a time interval in microseconds since the epoch; what is not wanted is empty."""
        system = self.system_metrics_reader.get_events(start_time_us, end_time_us) if get_system_metrics else []
        framework = (
            self.framework_metrics_reader.get_events(start_time_us, end_time_us) if get_framework_metrics else []
        )
        return self._system(system, selected_system_metrics), self._framework(framework, selected_framework_metrics)

    def get_profiler_data_by_step(self, start_step: int, end_step: int, cache_metrics: bool = False) -> tuple[Any, Any]:
        """Return both tables of steps, the last included; the timeline has only what belongs to one of them."""
        system = self.system_metrics_reader.get_events_by_step(start_step, end_step)
        events = self.framework_metrics_reader.get_events_by_step(start_step, end_step)
        of_steps = [event for event in events if start_step <= event.event_args.get("step_num", -1) <= end_step]
        return self._system(system, ()), self._framework(of_steps, ())

    def convert_datetime_to_timestamp(self, timestamp: datetime) -> float:
        """Return a time in microseconds since the epoch."""
        return timestamp.timestamp() * 1e6

    def _system(self, events: Sequence[SystemProfilerEvent], selected: Sequence[str]) -> Any:
        rows = [
            (
                _readable(event.timestamp),
                round(event.timestamp * 1e6) - self.start_time,
                event.value,
                event.name,
                event.dimension,
                event.node_id,
                event.type,
            )
            for event in events
            if not selected or event.name in selected
        ]
        return self._pandas.DataFrame(rows, columns=list(_SYSTEM))

    def _framework(self, events: Sequence[TraceEvent], selected: Sequence[str]) -> Any:
        rows = [
            (
                _readable(event.start_time / 1e6),
                _readable(event.end_time / 1e6),
                event.start_time - self.start_time,
                event.end_time - self.start_time,
                event.tid,
                event.pid,
                next((event.event_args[key] for key in _NAMES if key in event.event_args), event.event_name),
                int(event.event_args.get("step_num", -1)),
                event.event_args.get("bytes_fetched", -1),
                event.event_phase,
                event.node_id,
            )
            for event in events
            if not selected or event.event_name in selected or event.event_phase in selected
        ]
        return self._pandas.DataFrame(rows, columns=list(_FRAMEWORK))


def _readable(seconds: float) -> str:
    """Return a time since the epoch as a date and time in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%f}"
