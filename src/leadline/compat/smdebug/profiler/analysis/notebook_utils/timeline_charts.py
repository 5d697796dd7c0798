"""System metrics above the training phases, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.compat.smdebug.profiler.algorithm_metrics_reader import TraceEvent
from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart
from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase
from leadline.reader.table_rows import TableRow


class TimelineCharts(ReaderChart):
    """System metrics and training phases on one time axis, drawn at once; see ``ReaderChart``.

    Args:
        system_metrics_reader: Its run is drawn.
        framework_metrics_reader: Reads what ran in a selected interval; the chart needs none.
        starttime, endtime: Microseconds since the epoch.
        select_dimensions, select_events, x, show_workers: Change nothing: the legend hides lines.
    """

    def __init__(
        self,
        system_metrics_reader: MetricsReaderBase[Any],
        framework_metrics_reader: MetricsReaderBase[Any] | None = None,
        starttime: float = 0,
        endtime: float | None = None,
        select_dimensions: Sequence[str] = (".*",),
        select_events: Sequence[str] = (".*",),
        x: int = 1000,
        show_workers: bool = True,
    ) -> None:
        super().__init__(system_metrics_reader)
        self._events_reader = framework_metrics_reader
        self._bounds = starttime, endtime
        self._plot()

    def find_time_annotations(self, indexes: Sequence[int]) -> dict[str, float]:
        """Print what ran in a selected interval, and return it.

        Args:
            indexes: Of samples of the CPU utilization, in order of time; the first and the last bound the interval.
        Returns:
            The milliseconds of each phase and event within the interval, over all threads, by its name and step.
        Raises:
            SMDebugValueError: There is no reader of a timeline, or the samples were not taken.
        """
        bounds = self._interval(indexes)
        spent: dict[str, float] = {}
        for event in self._events(bounds):
            step = event.event_args.get("step_num")
            key = event.event_name if step is None else f"{event.event_name}_{step}"
            within_us = min(event.end_time, bounds[1]) - max(event.start_time, bounds[0])
            spent[key] = spent.get(key, 0.0) + max(0.0, within_us) / 1000
        for name, spent_ms in spent.items():
            _say(f"Spent {spent_ms} ms (cumulative time) in {name}")
        return spent

    def plot_detailed_profiler_data(self, indexes: Sequence[int]) -> None:
        """Draw the data loading and the phases of a selected interval; see ``find_time_annotations``."""
        from leadline.charts.phases import tracks

        loading: list[TableRow] = []
        other: list[TableRow] = []
        for event in self._events(self._interval(indexes)):
            worker = event.event_args.get("worker_id")
            is_loading = worker is not None or "bytes_fetched" in event.event_args
            thread = f"worker {worker}" if worker is not None else f"thread {event.tid}"
            row = {"name": f"{event.event_name}, {thread}" if is_loading else event.event_phase, "phase": "data"}
            row |= {} if is_loading else {"phase": event.event_phase}
            times = {"start_ns": int(event.start_time * 1000), "duration_ns": int(event.duration * 1000)}
            (loading if is_loading else other).append(row | times)
        titles = {"Data loading over time": loading, "Training phases over time": other}
        figures = [tracks(pa.Table.from_pylist(rows), title=title) for title, rows in titles.items() if rows]
        self._show(lambda: figures)

    def _interval(self, indexes: Sequence[int]) -> tuple[float, float]:
        """Return the bounds of a selection in microseconds since the epoch."""
        start, end = self._bounds
        if end is None:
            end = self.metrics_reader.get_timestamp_of_latest_available_file() + 1  # it is a whole microsecond
        samples = self.metrics_reader.get_events(start, end, event_type="cpu")
        times = sorted({event.timestamp for event in samples if event.dimension == "CPUUtilization"})
        first, last = min(indexes, default=0), max(indexes, default=-1)
        if not 0 <= first <= last < len(times):
            chosen = f"{first} to {last}" if len(indexes) else "none"
            raise SMDebugValueError(f"there are {len(times)} samples of the CPU utilization; selected: {chosen}")
        _say(f"Selected timerange: {times[first]} to {times[last]}")
        return times[first] * 1e6, times[last] * 1e6

    def _events(self, bounds: tuple[float, float]) -> list[TraceEvent]:
        if self._events_reader is None:
            raise SMDebugValueError("what ran in an interval is read by framework_metrics_reader, which was not given")
        found: list[TraceEvent] = self._events_reader.get_events(*bounds)
        return found

    def _plot(self) -> None:
        from leadline.charts import timeline_charts

        start, end = map(self._moment, self._bounds)
        self._show(lambda: [timeline_charts(self.metrics_reader.run, start=start, end=end)])


def _say(line: str) -> None:
    print(line)  # noqa: T201 - a notebook shows it
