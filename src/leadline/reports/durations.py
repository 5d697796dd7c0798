"""The section on step durations."""

from __future__ import annotations

from typing import Any, Final

from leadline.charts import step_charts
from leadline.reader.window import natural_sort_key
from leadline.reports.section import Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import POINTS, Sources

_PERCENTILES: Final = ("mean", "max", "p99", "p95", "p50", "min")
_MAX_OUTLIERS: Final = 20


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


def _statistics(by_series: dict[str, dict[str, Any]]) -> Table:
    rows = [
        {"name": name, "count": stats["count"], **{key: 1e3 * stats[key] for key in _PERCENTILES}}
        for name, stats in sorted(by_series.items(), key=lambda item: natural_sort_key(item[0]))
    ]
    columns: Columns = {"name": "worker/mode", "count": "steps", **{key: Column(key, "ms") for key in _PERCENTILES}}
    return table_of(rows, columns, title="Statistics")


def _longest(table: Any, by_series: dict[str, dict[str, Any]]) -> Table:
    """The longest step of each bucket, if it takes more than three times the median of its worker and mode."""
    rows = []
    for row in table.select(["worker", "mode", "longest_step", "longest_ns"]).to_pylist():
        median = by_series[f"{row['worker']}/{row['mode']}"]["p50"]
        seconds = row["longest_ns"] / 1e9
        if median > 0 and seconds > 3.0 * median:
            rows.append({**row, "ms": 1e3 * seconds, "factor": seconds / median})
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
