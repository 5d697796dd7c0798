"""What the charts of smdebug's interface have in common: Leadline's figures of the run that a reader reads."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from leadline.compat.smdebug.profiler.metrics_reader_base import MetricsReaderBase


class ReaderChart:
    """Charts of the run of a reader.

    Args:
        metrics_reader: A reader of system metrics or of a timeline.

    Attributes:
        figures: The Plotly figures that were drawn last.
    """

    def __init__(self, metrics_reader: MetricsReaderBase[Any]) -> None:
        self.metrics_reader = metrics_reader
        self.figures: list[Any] = []
        self._make: Callable[[], Iterable[Any]] = list

    def update_data(self, current_timestamp: float | None = None) -> None:
        """Draw it again, with what has been added."""
        self.metrics_reader.refresh_event_file_list()
        self._show(self._make)

    def clear(self) -> None:
        """Forget what was drawn."""
        self._make, self.figures = list, []

    def _show(self, make: Callable[[], Iterable[Any]]) -> None:
        """Make figures of what is there now, keep them, and display them in a notebook."""
        self._make, self.figures = make, list(make())
        if "IPython" in sys.modules:
            from IPython.display import display

            for figure in self.figures:
                display(figure)

    def _moment(self, time_us: float | None) -> str | None:
        """Return a time in microseconds since the epoch as one since the start of the run; None for none."""
        if not time_us:
            return None
        return f"{max(0.0, time_us / 1e6 - self.metrics_reader.run.manifest.started_ns / 1e9):.6f}s"


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns is found in a name."""
    return any(re.search(pattern, name) for pattern in patterns)
