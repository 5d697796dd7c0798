"""What a report is made from: a run and its digest, with each of them read once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from leadline.analysis.digest import Digest
from leadline.analysis.job import JobPhases
from leadline.analysis.overview import overview
from leadline.errors import LeadlineError
from leadline.reader.run import Run

POINTS: Final = 600
"""Buckets of a series that is drawn."""


@dataclass
class Sources:
    """A run, opened for a report.

    Args:
        run: The run.
        judged: How the rules of the profiler stand where somebody judged them for this report: rows as
            ``profiler_report`` keeps them in its product; None: as the run has it.
    """

    run: Run
    judged: list[dict[str, Any]] | None = None
    digest: Digest = field(init=False)

    def __post_init__(self) -> None:
        self.digest = Digest(self.run)

    @cached_property
    def said(self) -> dict[str, Any]:
        """The run as ``leadline show --json`` has it."""
        return overview(self.run)

    @cached_property
    def job(self) -> JobPhases:
        """From its start to its end."""
        return self.digest.job()

    @cached_property
    def machine(self) -> pa.Table:
        """What was measured of cores, GPUs and memory, on one grid."""
        return self.digest.system(kind=["cpu", "gpu", "memory"], points=POINTS)

    @cached_property
    def has_gpu(self) -> bool:
        """Whether a GPU was read."""
        return any(each.kind == "gpu" for each in self.digest.channels())

    @cached_property
    def operators(self) -> pa.Table | None:
        """Operators of detailed windows by phase, name and device; None: no window was recorded."""
        try:
            found = self.run.operators(("phase", "operator", "module", "device"))
        except LeadlineError:
            return None
        return found if found.num_rows else None

    def moment(self, time_ns: int | None) -> str:
        """A time as it is read: UTC, to the second."""
        if time_ns is None:
            return "–"
        return datetime.fromtimestamp(time_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
