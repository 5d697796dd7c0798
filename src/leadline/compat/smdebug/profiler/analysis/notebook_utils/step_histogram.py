"""The distribution of step times, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart
from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase


class StepHistogram(ReaderChart):
    """The distribution of step times by worker and mode; see ``ReaderChart``.

    Args:
        width: Changes nothing: the figure fills the notebook.
    """

    def __init__(self, metrics_reader: MetricsReaderBase[object], width: int = 500) -> None:
        super().__init__(metrics_reader)

    def plot(
        self,
        starttime: float = 0,
        endtime: float | None = None,
        select_metrics: Sequence[str] = (),
        show_workers: bool = True,
    ) -> None:
        """Draw the figure of all steps; the arguments change nothing."""
        from leadline.charts import step_histogram

        self._show(lambda: [step_histogram(self.metrics_reader.run)])
