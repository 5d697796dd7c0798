"""The section on how long steps took."""

from __future__ import annotations

from typing import Any, Final

from leadline.figures import steps
from leadline.reader.window import natural_sort_key
from leadline.reports.section import Chart, Column, Columns, Section, Table, empty, table_of
from leadline.reports.sources import POINTS, Sources

_PERCENTILES: Final = ("mean", "max", "p99", "p95", "p50", "min")
_MOST_OUTLIERS: Final = 20


def step_durations(sources: Sources) -> Section:
    """Statistics and histogram of the step times of each worker and mode, their course, and the longest steps."""
    spread = sources.digest.step_durations()
    if not spread:
        return empty("step-durations", "Step durations", "no step was timed")
    table = sources.digest.steps(points=POINTS)
    charts = (
        Chart(steps.durations(table)),
        Chart(steps.histogram(spread), width="half"),
        Chart(steps.timeline(_last(sources)), width="half"),
    )
    return Section("step-durations", "Step durations", (), charts, (_statistics(spread), _longest(table, spread)))


def _last(sources: Sources) -> Any:
    """The last steps, one by one."""
    steps_of = sources.run.steps()
    return sources.digest.steps(start_step=max(0, (steps_of[-1] if steps_of else 0) - 29))


def _statistics(spread: dict[str, dict[str, Any]]) -> Table:
    rows = [
        {"name": name, "count": each["count"], **{key: 1e3 * each[key] for key in _PERCENTILES}}
        for name, each in sorted(spread.items(), key=lambda each: natural_sort_key(each[0]))
    ]
    columns: Columns = {"name": "worker/mode", "count": "steps", **{key: Column(key, "ms") for key in _PERCENTILES}}
    return table_of(rows, columns, title="Statistics")


def _longest(table: Any, spread: dict[str, dict[str, Any]]) -> Table:
    """The longest step of each stretch that is far above its worker's median."""
    rows = []
    for row in table.select(["worker", "mode", "longest_step", "longest_ns"]).to_pylist():
        median = spread[f"{row['worker']}/{row['mode']}"]["p50"]
        seconds = row["longest_ns"] / 1e9
        if median > 0 and seconds > 3.0 * median:
            rows.append({**row, "ms": 1e3 * seconds, "factor": seconds / median})
    rows.sort(key=lambda each: -each["factor"])
    columns: Columns = {
        "worker": "worker",
        "mode": "mode",
        "longest_step": "step",
        "ms": Column("time", "ms"),
        "factor": Column("of the median", "×"),
    }
    title = "Outliers: steps of more than three medians" if rows else "Outliers: no step took more than three medians"
    return table_of(rows, columns, title=title, most=_MOST_OUTLIERS)
