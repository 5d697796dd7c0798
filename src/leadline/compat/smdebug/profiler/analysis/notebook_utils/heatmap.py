"""The utilization of every core and GPU over time, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart
from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase


class Heatmap(ReaderChart):
    """The utilization of every core and GPU, a row each, drawn at once; see ``ReaderChart``.

    Args:
        starttime, endtime: Microseconds since the epoch.
        select_metrics, select_dimensions, select_events, plot_height, show_workers: Change nothing.
    """

    def __init__(
        self,
        metrics_reader: MetricsReaderBase[Any],
        select_metrics: object = (),
        starttime: float = 0,
        endtime: float | None = None,
        select_dimensions: Sequence[str] = (".*CPU", ".*GPU"),
        select_events: Sequence[str] = (".*",),
        plot_height: int = 350,
        show_workers: bool = True,
    ) -> None:
        from leadline.charts import heat_map

        super().__init__(metrics_reader)
        start, end = self._moment(starttime), self._moment(endtime)
        self._show(lambda: [heat_map(self.metrics_reader.run, start=start, end=end)])
