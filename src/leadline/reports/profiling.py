"""The profiling chapter: time breakdown and resource utilization of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from leadline.analysis.digest_steps import StepDistribution
from leadline.analysis.operators import OperatorSum, seconds_by_kind, top_operators
from leadline.charts import profile_charts, step_charts
from leadline.charts.phases import pie
from leadline.reader.window import natural_sort_key
from leadline.records import describe
from leadline.records.formatting import duration, moment, phase_label, share, worker_labels
from leadline.reports.machine import (
    CPU,
    IO,
    NO_GPU,
    batch_size,
    bottleneck,
    gpu_memory,
    gpu_utilization,
    load_balancing,
    system_usage,
)
from leadline.reports.rules import rules_summary
from leadline.reports.section import Cell, Chapter, Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import POINTS, Sources

MAX_OPERATORS: Final = 25
_NO_WINDOW: Final = (
    "no detailed profile was recorded; record one with leadline run --profile detailed:at=100,for=2 …, "
    "or during a run with leadline profile --detailed"
)
"""Colours that differ from those of the phases of a step."""
_EVALUATION: Final = ("eval", "predict")
_PERCENTILES: Final = ("mean", "max", "p99", "p95", "p50", "min")
_MAX_OUTLIERS: Final = 20


def summary(sources: Sources) -> Section:
    """Start and end of the job, and its phases."""
    job = sources.job
    phases_of_job = job.to_dict()
    is_over = sources.summary["ended"] is not None
    rows: list[tuple[Cell, ...]] = [
        ("start", moment(job.started_ns), None, None),
        ("end" if is_over else "latest record (still running)", moment(job.ended_ns), None, None),
        ("job", None, job.seconds, None),
        ("training loop, start", moment(job.loop_started_ns), None, None),
        ("training loop, end", moment(job.loop_ended_ns), None, None),
    ]
    for name in ("initialization", "training_loop", "finalization"):
        part = phases_of_job[name]
        ratio = None if part["share"] is None else 100.0 * part["share"]
        rows.append((name.replace("_", " "), None, part["seconds"], ratio))
    rows += [(f"including {name.replace('_', ' ')}", None, seconds, None) for name, seconds in job.split.items()]
    columns = (Column("part"), Column("time"), Column("duration", "s"), Column("share", "%"))
    return Section(
        "job-summary",
        "Job summary",
        (_outcome(sources),),
        _charts(sources),
        (Table(columns, tuple(rows)),),
    )


def _charts(sources: Sources) -> tuple[Chart, ...]:
    if sources.job.loop_started_ns is None:
        return ()
    figures = (step_charts.job(sources.digest), step_charts.progress(sources.digest))
    return tuple(Chart(figure, width="half") for figure in figures)


def _outcome(sources: Sources) -> str:
    summary, job = sources.summary, sources.job
    loop = f", {share(job.loop_seconds / job.seconds)} of it in the training loop" if job.loop_started_ns else ""
    return f"{summary['status']} after {duration(job.seconds)}{loop}; {describe.steps(summary['steps'])}."


def framework(sources: Sources) -> Section:
    """Shares of modes, of forward and backward pass, of CPU and GPU operators, and of the phases of steps."""
    by_mode = _by_mode(sources)
    if not any(by_mode.values()):
        return empty("framework-metrics", "Framework metrics", "no step was timed")
    kinds = seconds_by_kind(sources.operators) if sources.operators is not None else {}
    pies = (
        pie(_against_other(sources, by_mode), title="Training, evaluation and other"),
        pie(_passes(by_mode["train"]), title="Forward and backward pass"),
        pie(kinds, title="CPU and GPU operators", missing=_NO_WINDOW),
        pie(_general(sources, by_mode["train"]), title="All phases"),
    )
    shown = [figure for figure in pies if not (figure.layout.meta or {}).get("empty")]
    charts = [Chart(figure, width="half") for figure in shown]
    if sources.operators is not None:
        charts.append(Chart(profile_charts.top_operators(sources.digest)))
    tables = _operator_tables(sources.operators)
    text = () if tables else (f"Operators: {_NO_WINDOW}.",)
    return Section("framework-metrics", "Framework metrics", text, tuple(charts), (_phases(by_mode["train"]), *tables))


def _by_mode(sources: Sources) -> dict[str, dict[str, float]]:
    return {mode: sources.digest.phases(mode=mode) for mode in ("train", *_EVALUATION)}


def _against_other(sources: Sources, by_mode: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Time in steps by mode, and the remaining time of the job, summed over workers."""
    sums = {mode: sum(parts.values()) for mode, parts in by_mode.items()}
    workers = max(1, len(sources.digest.step_durations(mode="train")))
    return {**sums, "other": max(0.0, workers * sources.job.seconds - sum(sums.values()))}


def _passes(parts: Mapping[str, float]) -> dict[str, float]:
    return {name: parts[name] for name in ("forward", "backward") if name in parts}


def _general(sources: Sources, parts: Mapping[str, float]) -> dict[str, float]:
    """The phases of the training steps, and the time before and after them."""
    workers = max(1, len(sources.digest.step_durations(mode="train")))
    job = sources.job
    around = {"initialization": job.initialization_seconds, "finalization": job.finalization_seconds}
    return {**parts, **{name: workers * seconds for name, seconds in around.items()}}


def _phases(parts: Mapping[str, float]) -> Table:
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    rows = [
        {"phase": phase_label(name), "seconds": seconds, "share": 100.0 * seconds / whole} for name, seconds in ordered
    ]
    columns: Columns = {
        "phase": "phase",
        "seconds": Column("time", "s"),
        "share": Column("share of the step time", "%"),
    }
    return table_of(rows, columns, title="Phases of the training steps, summed over workers")


def _operator_tables(table: pa.Table | None) -> tuple[Table, ...]:
    if table is None:
        return ()
    titles = {"cpu": "Operators on the CPU", "gpu": "Operators on the GPU"}
    rows = {title: top_operators(table, device=device, limit=None) for device, title in titles.items()}
    return tuple(_operators(operators_of, title) for title, operators_of in rows.items() if operators_of)


def _operators(rows: list[OperatorSum], title: str) -> Table:
    shown = [
        {
            **row,
            "phase": phase_label(row["phase"]),
            "self": row["own_ns"] / 1e6,
            "total": row["total_ns"] / 1e6,
            "share": 100.0 * row["share"],
            "cumulative": 100.0 * row["cumulative_share"],
        }
        for row in rows
    ]
    columns: Columns = {
        "operator": "operator",
        "phase": "phase",
        "module": "module",
        "calls": "calls",
        "self": Column("self time", "ms"),
        "total": Column("total time", "ms"),
        "share": Column("share", "%"),
        "cumulative": Column("cumulative", "%"),
    }
    return table_of(shown, columns, title=title, limit=MAX_OPERATORS)


def step_durations(sources: Sources) -> Section:
    """Statistics, histogram and time series of the step times by worker and mode, and the longest steps."""
    by_series = sources.digest.step_durations()
    if not by_series:
        return empty("step-durations", "Step durations", "no step was timed")
    table = sources.digest.steps(points=POINTS)
    charts = (
        Chart(step_charts.step_durations(sources.digest)),
        Chart(step_charts.step_histogram(sources.digest), width="half"),
        Chart(step_charts.step_timeline(sources.digest), width="half"),
    )
    return Section("step-durations", "Step durations", (), charts, (_statistics(by_series), _longest(table, by_series)))


def _statistics(by_series: dict[str, StepDistribution]) -> Table:
    rows, labels = [], worker_labels(name.rpartition("/")[0] for name in by_series)
    for name, stats in sorted(by_series.items(), key=lambda item: natural_sort_key(item[0])):
        worker, _, mode = name.rpartition("/")
        times = {key: 1e3 * stats[key] for key in _PERCENTILES}
        rows.append({"worker": labels[worker], "mode": mode, "count": stats["count"], **times})
    percentiles = {key: Column(key, "ms") for key in _PERCENTILES}
    columns: Columns = {"worker": "worker", "mode": "mode", "count": "steps", **percentiles}
    return table_of(rows, columns, title="Statistics")


def _longest(table: Any, by_series: dict[str, StepDistribution]) -> Table:
    """The longest step of each bucket, if it takes more than three times the median of its worker and mode."""
    rows, labels = [], worker_labels(name.rpartition("/")[0] for name in by_series)
    for row in table.select(["worker", "mode", "longest_step", "longest_ns"]).to_pylist():
        median = by_series[f"{row['worker']}/{row['mode']}"]["p50"]
        seconds = row["longest_ns"] / 1e9
        if median > 0 and seconds > 3.0 * median:
            rows.append({**row, "worker": labels[row["worker"]], "ms": 1e3 * seconds, "factor": seconds / median})
    rows.sort(key=lambda row: -row["factor"])
    columns: Columns = {
        "worker": "worker",
        "mode": "mode",
        "longest_step": "step",
        "ms": Column("time", "ms"),
        "factor": Column("relative to median", "×"),
    }
    title = "Outliers: steps longer than 3 × median" if rows else "Outliers: no step was longer than 3 × median"
    return table_of(rows, columns, title=title, limit=_MAX_OUTLIERS)


def _needs_gpu(sources: Sources) -> Section:
    """The sections on GPUs in one line, for a run without one."""
    why = f"utilization, batch size, bottlenecks, load balancing and memory: {NO_GPU}"
    return empty("gpus", "GPUs", why)


_WITHOUT_GPU: Final[tuple[Callable[[Sources], Section], ...]] = (
    summary,
    system_usage,
    framework,
    rules_summary,
    step_durations,
    _needs_gpu,
)
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
    """The chapter with its eleven sections; those on GPUs are one if no GPU was sampled."""
    sections = SECTIONS if sources.has_gpu else _WITHOUT_GPU
    return Chapter("profiling", "Profiling", tuple(make(sources) for make in sections))
