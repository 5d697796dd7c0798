"""The sections on the job as a whole: its parts in time, and what its framework did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from leadline.analysis.interruptions import interruptions
from leadline.analysis.operators import seconds_by_kind, top_operators
from leadline.figures import operators, phases, shares, theme
from leadline.records.formatting import duration, share
from leadline.reports.section import Cell, Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import POINTS, Sources

MOST_OPERATORS: Final = 25
_NO_WINDOW: Final = (
    "no window was profiled in detail; next time: leadline run --profile detailed:at=100,for=2 …, "
    "or while it runs: leadline profile --detailed"
)
_AROUND: Final = {"initialization": theme.PALETTE[5], "finalization": theme.PALETTE[4]}
"""Colours that no phase of a training step has."""
_EVALUATION: Final = ("eval", "predict")


def summary(sources: Sources) -> Section:
    """When the job started and ended, and how its time divides."""
    job = sources.job
    told = job.spoken()
    is_over = sources.said["ended"] is not None
    rows: list[tuple[Cell, ...]] = [
        ("start", sources.moment(job.started_ns), None, None),
        ("end" if is_over else "latest record (the job goes on)", sources.moment(job.ended_ns), None, None),
        ("job", None, job.seconds, None),
        ("training loop, start", sources.moment(job.loop_started_ns), None, None),
        ("training loop, end", sources.moment(job.loop_ended_ns), None, None),
    ]
    for name in ("initialization", "training_loop", "finalization"):
        part = told[name]
        ratio = None if part["share"] is None else 100.0 * part["share"]
        rows.append((name.replace("_", " "), None, part["seconds"], ratio))
    rows += [(f"of it {name.replace('_', ' ')}", None, seconds, None) for name, seconds in job.split.items()]
    columns = (Column("part"), Column("moment"), Column("time", "s"), Column("share", "%"))
    return Section(
        "job-summary",
        "Job summary",
        (_spoken(sources),),
        _charts(sources),
        (Table(columns, tuple(rows)),),
    )


def _charts(sources: Sources) -> tuple[Chart, ...]:
    if sources.job.loop_started_ns is None:
        return ()
    table = sources.digest.steps(points=POINTS)
    pauses = interruptions(sources.run.status_document, table)
    course = phases.progress(table, job=sources.job, interruptions=pauses)
    return Chart(shares.job_phases(sources.job), width="half"), Chart(course, width="half")


def _spoken(sources: Sources) -> str:
    said, job = sources.said, sources.job
    steps = ", ".join(f"{count:,} {mode} steps" for mode, count in said["steps"].items()) or "no step seen"
    loop = f", {share(job.loop_seconds / job.seconds)} of it in the training loop" if job.loop_started_ns else ""
    return f"{said['status']} after {duration(job.seconds)}{loop}; {steps}."


def framework(sources: Sources) -> Section:
    """Training against evaluation, forward against backward, operators on CPU and GPU, and the phases of steps."""
    by_mode = _by_mode(sources)
    if not any(by_mode.values()):
        return empty("framework-metrics", "Framework metrics", "no step was timed")
    kinds = seconds_by_kind(sources.operators) if sources.operators is not None else {}
    charts = (
        shares.pie(_against_other(sources, by_mode), title="Training and evaluation against other"),
        shares.pie(_passes(by_mode["train"]), title="Forward against backward"),
        shares.pie(kinds, title="CPU against GPU operators", missing=_NO_WINDOW),
        shares.pie(_general(sources, by_mode["train"]), title="All phases", colours=_AROUND),
    )
    shown = [each for each in charts if not (each.layout.meta or {}).get("empty")]
    charts_ = [Chart(each, width="half") for each in shown]
    if sources.operators is not None:
        charts_.append(Chart(operators.bars(top_operators(sources.operators))))
    tables = _operator_tables(sources.operators)
    words = () if tables else (f"Operators: {_NO_WINDOW}.",)
    return Section(
        "framework-metrics", "Framework metrics", words, tuple(charts_), (_phases(by_mode["train"]), *tables)
    )


def _by_mode(sources: Sources) -> dict[str, dict[str, float]]:
    return {mode: sources.digest.phases(mode=mode) for mode in ("train", *_EVALUATION)}


def _against_other(sources: Sources, by_mode: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Time in steps of each mode, and what is left of the job, of all workers together."""
    found = {mode: sum(parts.values()) for mode, parts in by_mode.items()}
    workers = max(1, len(sources.digest.step_durations(mode="train")))
    return {**found, "other": max(0.0, workers * sources.job.seconds - sum(found.values()))}


def _passes(parts: Mapping[str, float]) -> dict[str, float]:
    return {name: parts[name] for name in ("forward", "backward") if name in parts}


def _general(sources: Sources, parts: Mapping[str, float]) -> dict[str, float]:
    """The phases of the training steps beside what lies before and after them."""
    workers = max(1, len(sources.digest.step_durations(mode="train")))
    job = sources.job
    around = {"initialization": job.initialization_seconds, "finalization": job.finalization_seconds}
    return {**parts, **{name: workers * each for name, each in around.items()}}


def _phases(parts: Mapping[str, float]) -> Table:
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda each: -each[1])
    rows = [{"phase": name, "seconds": each, "share": 100.0 * each / whole} for name, each in ordered]
    columns: Columns = {
        "phase": "phase",
        "seconds": Column("time", "s"),
        "share": Column("share of the step time", "%"),
    }
    return table_of(rows, columns, title="Phases of the training steps, all workers together")


def _operator_tables(found: pa.Table | None) -> tuple[Table, ...]:
    if found is None:
        return ()
    titles = {"cpu": "Operators on the CPU", "gpu": "Operators on the GPU"}
    rows = {title: top_operators(found, device=device, most=None) for device, title in titles.items()}
    return tuple(_operators(each, title) for title, each in rows.items() if each)


def _operators(rows: list[dict[str, Any]], title: str) -> Table:
    told = [
        {
            **row,
            "own": row["own_ns"] / 1e6,
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
        "own": Column("own time", "ms"),
        "total": Column("with what it calls", "ms"),
        "share": Column("share", "%"),
        "cumulative": Column("cumulative", "%"),
    }
    return table_of(told, columns, title=title, most=MOST_OPERATORS)
