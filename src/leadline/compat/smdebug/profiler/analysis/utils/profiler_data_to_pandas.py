"""System metrics and timelines as tables of pandas, in smdebug's interface."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from leadline.compat.smdebug.core.utils import match_inc
from leadline.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader, TraceEvent
from leadline.compat.smdebug.profiler.analysis.data_frames import import_pandas
from leadline.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader, SystemProfilerEvent
from leadline.compat.smdebug.profiler.utils import TIME_FORMAT

_FRAMEWORK: Final = (
    *("start_time", "end_time", "start_time_us", "end_time_us", "tid", "pid"),
    *("framework_metric", "step", "bytes", "process", "nodeID"),
)
_LOADERS: Final = (
    *("start_time", "end_time", "start_time_us", "end_time_us", "duration_us", "pid", "framework_metric", "step"),
    *("worker_id", "num_workers", "pin_memory", "process", "node_id"),
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

    def get_all_dataloader_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return a row for each event of the timeline, with what data loaders record of themselves.

        Its columns are ``start_time, end_time, start_time_us, end_time_us, duration_us, pid, framework_metric, step,
        worker_id, num_workers, pin_memory, process`` and ``node_id``; what an event does not say is -1, and ``NA`` of
        ``pin_memory``.

        Args:
            selected_framework_metrics: Regular expressions: only events whose names or phases contain a match of any;
                empty: all.
        """
        rows = [
            (
                *self._times(event),
                event.duration,
                event.pid,
                _name(event),
                int(event.event_args.get("step_num", -1)),
                event.event_args.get("worker_id", -1),
                event.event_args.get("num_workers", -1),
                str(event.event_args["pin_memory"] is True) if "pin_memory" in event.event_args else "NA",
                event.event_phase,
                event.node_id,
            )
            for event in self.framework_metrics_reader.get_events(0, _EVER // 1000)
            if not selected_framework_metrics
            or match_inc(event.event_name, selected_framework_metrics)
            or match_inc(event.event_phase, selected_framework_metrics)
        ]
        return self._pandas.DataFrame(rows, columns=list(_LOADERS))

    def get_framework_metrics_by_timesteps(
        self, timestep_list: Sequence[Any] = (), selected_framework_metrics: Sequence[str] = ()
    ) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        """Return what the training did at moments: the durations of the events that contain one, added up.

        Args:
            timestep_list: The moments, such as those of samples of system metrics.
            selected_framework_metrics: Only events of these names or phases; empty: all.
        Returns:
            By phase, as shares of the largest; by name, and by mode of the steps, in microseconds.
        """
        phases, names, modes = (defaultdict[str, float](float) for _ in range(3))
        moments = [self.convert_datetime_to_timestamp(moment) for moment in timestep_list]
        for event in self._selected(moments, moments, selected_framework_metrics):
            count = sum(event.start_time < moment < event.end_time for moment in moments)
            if not count:
                continue
            (modes if _is_step(event) else phases)[event.event_phase] += event.duration * count
            if not _is_step(event):
                names[event.event_name] += event.duration * count
        return _shares(phases), dict(names), dict(modes)

    def get_framework_metrics_by_begin_and_end_timesteps(
        self,
        begin_timestep_list: Sequence[Any],
        end_timestep_list: Sequence[Any],
        selected_framework_metrics: Sequence[str] = (),
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return what the training did in intervals: the durations of the events that overlap one, added up.

        Args:
            begin_timestep_list, end_timestep_list: The begins and ends of the intervals, such as those of slow steps.
            selected_framework_metrics: Only events of these names or phases; empty: all.
        Returns:
            By phase and by name, as shares of the largest.
        """
        phases, names = (defaultdict[str, float](float) for _ in range(2))
        begins = [self.convert_datetime_to_timestamp(moment) for moment in begin_timestep_list]
        ends = [self.convert_datetime_to_timestamp(moment) for moment in end_timestep_list]
        for event in self._selected(begins, ends, selected_framework_metrics):
            pairs = zip(begins, ends, strict=True)
            count = sum(event.end_time >= begin and event.start_time <= end for begin, end in pairs)
            if count and not _is_step(event):
                phases[event.event_phase] += event.duration * count
                names[event.event_name] += event.duration * count
        return _shares(phases), _shares(names)

    def _selected(
        self, begins_us: Sequence[float], ends_us: Sequence[float], selected: Sequence[str]
    ) -> Iterator[TraceEvent]:
        if begins_us:
            for event in self.framework_metrics_reader.get_events(min(begins_us), max(ends_us)):
                if not selected or event.event_name in selected or event.event_phase in selected:
                    yield event

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

    def convert_datetime_to_timestamp(self, timestamp: Any) -> float:
        """Return a time in microseconds since the epoch.

        Args:
            timestamp: As in the tables, or a date and time; without a time zone, in UTC.
        """
        moment = self._pandas.to_datetime(timestamp, format=TIME_FORMAT, utc=True)
        return float(moment.timestamp() * 1e6)

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

    def _times(self, event: TraceEvent) -> tuple[str, str, float, float]:
        """Return the start and the end of an event: in UTC, and in microseconds since the start of the training."""
        start, end = event.start_time, event.end_time
        return _readable(start / 1e6), _readable(end / 1e6), start - self.start_time, end - self.start_time

    def _framework(self, events: Sequence[TraceEvent], selected: Sequence[str]) -> Any:
        rows = [
            (
                *self._times(event),
                event.tid,
                event.pid,
                _name(event),
                int(event.event_args.get("step_num", -1)),
                event.event_args.get("bytes_fetched", -1),
                event.event_phase,
                event.node_id,
            )
            for event in events
            if not selected or event.event_name in selected or event.event_phase in selected
        ]
        return self._pandas.DataFrame(rows, columns=list(_FRAMEWORK))


def _name(event: TraceEvent) -> str:
    return str(next((event.event_args[key] for key in _NAMES if key in event.event_args), event.event_name))


def _is_step(event: TraceEvent) -> bool:
    return event.event_phase.startswith("Step:")


def _shares(durations: Mapping[str, float]) -> dict[str, float]:
    """Return durations as shares of the largest."""
    largest = max(durations.values(), default=0)
    return {name: duration / largest if largest else 0.0 for name, duration in durations.items()}


def _readable(seconds: float) -> str:
    """Return a time since the epoch as a date and time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime(TIME_FORMAT)
