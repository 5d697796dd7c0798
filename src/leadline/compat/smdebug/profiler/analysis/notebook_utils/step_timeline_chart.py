"""Step times over the steps, in smdebug's interface."""

from __future__ import annotations

from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart
from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase


class StepTimelineChart(ReaderChart):
    """The time of each step, with long steps marked; it is drawn at once. See ``ReaderChart``.

    Args:
        width: Changes nothing: the figure fills the notebook.
    """

    def __init__(self, metrics_reader: MetricsReaderBase[object], width: int = 1000) -> None:
        super().__init__(metrics_reader)
        self.plot()

    def plot(self) -> None:
        """Draw the figure."""
        from leadline.charts import step_durations

        self._show(lambda: [step_durations(self.metrics_reader.run)])
