"""The profiling chapter: time breakdown and resource utilization of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leadline.reports.durations import step_durations
from leadline.reports.gpu_starvation import CPU, IO, bottleneck
from leadline.reports.job import framework, summary
from leadline.reports.machine import batch_size, gpu_memory, gpu_utilization, load_balancing, system_usage
from leadline.reports.rules import rules_summary
from leadline.reports.section import Chapter, Section
from leadline.reports.sources import Sources

SECTIONS: Final[tuple[Callable[[Sources], Section], ...]] = (
    summary,
    system_usage,
    framework,
    rules_summary,
    step_durations,
    gpu_utilization,
    batch_size,
    lambda sources: bottleneck(sources, CPU),
    lambda sources: bottleneck(sources, IO),
    load_balancing,
    gpu_memory,
)
"""In the order of the profiling report of SageMaker Debugger."""


def chapter(sources: Sources) -> Chapter:
    """The chapter with its eleven sections."""
    return Chapter("profiling", "Profiling", tuple(make(sources) for make in SECTIONS))
