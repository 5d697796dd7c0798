"""One trace of system metrics, training phases and profiles, in smdebug's interface."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum

from leadline.exports.perfetto import export_trace
from leadline.exports.span import Span, parse_span, train_steps
from leadline.reader.run import open_run


class MergeUnit(Enum):
    """What the bounds of a trace are."""

    TIME = "time"
    """Microseconds since the epoch."""
    STEP = "step"


class MergedTimeline:
    """Writes a run, or the profiles that smdebug wrote, as a trace of Chrome's format: see it in Perfetto.

    Args:
        path: The run or the profiles; see ``MetricsReaderBase``.
        file_suffix_filter: Changes nothing: a run has one timeline.
        output_directory: The folder of the trace; None: the working folder.
    """

    def __init__(
        self, path: str, file_suffix_filter: Sequence[str] | None = None, output_directory: str | None = None
    ) -> None:
        self._path, self._folder = path, output_directory or os.curdir

    def merge_timeline(
        self,
        start: float,
        end: float,
        unit: MergeUnit = MergeUnit.TIME,
        sys_metrics_filter: Mapping[str, Sequence[float]] | None = None,
    ) -> str:
        """Write the trace of a time or of steps, the last one included; return its path.

        Args:
            sys_metrics_filter: Changes nothing: the trace has all samples.
        Raises:
            OSError: It could not be written.
        """
        run = open_run(self._path)
        if unit is MergeUnit.STEP:
            bounds = str(int(start)), str(int(end) + 1)
            span = parse_span(*bounds, timeline=train_steps(run), started_ns=run.manifest.started_ns)
        else:
            span = Span(int(start * 1000), int(end * 1000))
        os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, f"{int(end)}_{run.name}_merged_timeline.json")
        export_trace(run, path, span)
        return path
