"""The data of a report: a run, its digest, and values derived from them once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa

from leadline.analysis.digest import Digest
from leadline.analysis.job import JobPhases
from leadline.analysis.overview import outcome_of, overview
from leadline.analysis.overview_document import RunOverview
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.outcome import RunOutcome
from leadline.records.profiled_rule import ProfiledRule

POINTS: Final = 600
"""The number of buckets of a drawn series."""


@dataclass
class Sources:
    """The data of a report of one run.

    Args:
        run: The run.
        judged: Results of the profiler rules that were evaluated for this report, in the form of the product of
            ``profiler_report``; None: those stored in the run.
    """

    run: Run
    judged: list[ProfiledRule] | None = None
    digest: Digest = field(init=False)

    def __post_init__(self) -> None:
        self.digest = Digest(self.run)

    @cached_property
    def summary(self) -> RunOverview:
        """The run as in ``leadline show --json``."""
        return overview(self.run)

    @cached_property
    def outcome(self) -> RunOutcome:
        """How the run ended, what is wrong with it, and what to try."""
        return outcome_of(self.run)

    @cached_property
    def job(self) -> JobPhases:
        """The phases of the job from start to end."""
        return self.digest.job()

    @cached_property
    def machine(self) -> pa.Table:
        """Metrics of CPU, GPUs and memory, resampled to common times."""
        return self.digest.system(kind=["cpu", "gpu", "memory"], points=POINTS)

    @cached_property
    def has_gpu(self) -> bool:
        """Whether there are metrics of a GPU."""
        return any(channel.kind == "gpu" for channel in self.digest.channels())

    @cached_property
    def operators(self) -> pa.Table | None:
        """Operators of detailed windows by phase, name and device; None without a recorded window."""
        try:
            table = self.run.operators(("phase", "operator", "module", "device"))
        except LeadlineError:
            return None
        return table if table.num_rows else None
