"""Bounds of an interval of a run, as steps or times."""

from __future__ import annotations

from typing import Any

from leadline.exports.span import Span, parse_span
from leadline.reader.run import Run

Moment = int | str | None
"""A step (``120``), or a time since the start of the run (``"90s"``, ``"5min"``); None: unbounded."""


def parse_interval(run: Run, start: Moment, end: Moment, worker: str | None = None) -> Span:
    """Parse bounds; steps are those of a worker, or of the first that starts the step."""
    if start is None and end is None:
        return Span()
    bounds: list[Any] = [None if bound is None else str(bound) for bound in (start, end)]
    started_ns = run.manifest.started_ns
    return parse_span(
        *bounds, timeline=run.timeline("step", worker=worker), started_ns=started_ns, names=("start", "end")
    )
