"""System metrics above the training phases, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart
from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase


class TimelineCharts(ReaderChart):
    """System metrics and training phases on one time axis, drawn at once; see ``ReaderChart``.

    Args:
        system_metrics_reader: Its run is drawn.
        framework_metrics_reader: Changes nothing: a run has both.
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
        self._bounds = starttime, endtime
        self._plot()

    def update_data(self, current_timestamp: float | None = None) -> None:
        """Draw it again, with what has been added."""
        self.metrics_reader.refresh_event_file_list()
        self._plot()

    def _plot(self) -> None:
        from leadline.charts import timeline_charts

        start, end = map(self._moment, self._bounds)
        self._show([timeline_charts(self.metrics_reader.run, start=start, end=end)])
