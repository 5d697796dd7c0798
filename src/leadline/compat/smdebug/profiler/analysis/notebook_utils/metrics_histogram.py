"""Distributions of utilization, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart, matches


class MetricsHistogram(ReaderChart):
    """The distribution of the utilization of CPU and GPU; see ``ReaderChart``."""

    def plot(
        self,
        starttime: float = 0,
        endtime: float | None = None,
        select_dimensions: Sequence[str] = (".*",),
        select_events: Sequence[str] = (".*",),
        show_workers: bool = True,
    ) -> None:
        """Draw a figure for each dimension.

        Args:
            starttime, endtime: Microseconds since the epoch.
            select_dimensions: Regular expressions for ``CPUUtilization`` and ``GPUUtilization``.
            select_events: Regular expressions for ``cpu0``, ``gpu1`` …, or ``total``.
            show_workers: Changes nothing: a figure has every device of each node.
        """
        start, end = self._moment(starttime), self._moment(endtime)
        self._show(lambda: self._figures(start, end, select_dimensions, select_events))

    def _figures(
        self, start: str | None, end: str | None, select_dimensions: Sequence[str], select_events: Sequence[str]
    ) -> list[Any]:
        from leadline.charts import metrics_histogram

        run = self.metrics_reader.run
        known = run.system_metrics().select(["kind", "device"]).group_by(["kind", "device"]).aggregate([]).to_pylist()
        figures = []
        for kind, dimension in (("cpu", "CPUUtilization"), ("gpu", "GPUUtilization")):
            devices = sorted({row["device"] for row in known if row["kind"] == kind})
            chosen = [device for device in devices if matches(device.replace("core", "cpu"), select_events)]
            if chosen and matches(dimension, select_dimensions):
                figures.append(metrics_histogram(run, kind, devices=chosen, start=start, end=end))
        return figures
