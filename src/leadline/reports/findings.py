"""The section on the findings in chronological order, each with its chart."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.charts import marks, scalars, step_charts, usage
from leadline.records.formatting import counted
from leadline.reports.section import Chart, Columns, Section, Table, empty, format_cell, table_of
from leadline.reports.sources import POINTS, Sources
from leadline.rules.documentation import read_documentation

_MAX_DETAILED: Final = 25
"""The maximum number of findings with details."""
_MAX_CHARTS: Final = 12
_MAX_TENSORS: Final = 6


def findings(sources: Sources) -> Section:
    """A table of all findings, and the details of the first ones."""
    rows = sorted(sources.run.findings().to_pylist(), key=lambda row: (row["time_ns"], row["step"]))
    if not rows:
        rules = sources.summary["rules"]
        why = "the rules have no findings" if rules else "no rules were evaluated; evaluate them with: leadline judge"
        return empty("findings", "Findings", why)
    parts = tuple(_part(sources, index, row) for index, row in enumerate(rows[:_MAX_DETAILED]))
    more = len(rows) - _MAX_DETAILED
    text = [f"{counted(len(rows), 'finding')} in chronological order."]
    text += [f"Details of the first {_MAX_DETAILED} follow."] if more > 0 else []
    return Section("findings", "Findings", tuple(text), (), (_table(sources, rows),), parts)


def _table(sources: Sources, rows: list[dict[str, Any]]) -> Table:
    shown = [
        {
            **row,
            "time": sources.format_time(row["time_ns"]),
            "until": row["last_step"] if row["count"] > 1 else None,
            "message": row["message"],
            "state": "open" if row["is_open"] else "resolved",
        }
        for row in rows
    ]
    columns: Columns = {
        "time": "time",
        "rule": "rule",
        "step": "step",
        "until": "until step",
        "message": "message",
        "state": "state",
    }
    return table_of(shown, columns, limit=200)


def _part(sources: Sources, index: int, row: dict[str, Any]) -> Section:
    documentation = read_documentation(_rule_of(sources, row["rule"]))
    text = [f"{row['message']}."]
    text += [f"Why it matters: {documentation.section('Why it matters')}"] if documentation else []
    cause = next((rule["explained_by"] for rule in sources.summary["rules"] if rule["name"] == row["rule"]), None)
    if cause:
        text.append(f"Probably caused by the finding of {cause}.")
    elif row["suggestion"]:
        text.append(f"Try: {row['suggestion']}.")
    if row["tensor_count"]:
        names = ", ".join(row["tensors"][:_MAX_TENSORS])
        more = row["tensor_count"] - len(row["tensors"][:_MAX_TENSORS])
        text.append(f"Affected: {names}{f' and {more:,} more' if more > 0 else ''}.")
    chart = chart_of(sources, row) if index < _MAX_CHARTS else None
    title = f"Step {row['step']:,}: {row['rule']}"
    return Section(f"{index + 1}", title, tuple(text), (chart,) if chart else (), _evidence(row))


def chart_of(sources: Sources, row: dict[str, Any]) -> Chart | None:
    """The chart of the tensors, devices or steps of a finding, with the finding marked; None without data."""
    figure = _of_tensors(sources, row["tensors"]) or _of_devices(sources, row["tensors"]) or _of_steps(sources)
    if figure is None:
        return None
    return Chart(marks.mark(figure, [row]))


def _of_tensors(sources: Sources, names: list[str]) -> Any:
    """The tensors over steps: their values if they are scalars, else the first available statistic."""
    known = [name for name in names if name in set(sources.run.tensor_names())][:_MAX_TENSORS]
    for statistic in ("value", "abs_mean", "l2", "abs_max", "mean", "std"):
        tables = [sources.digest.statistic(name, statistic, points=POINTS) for name in known]
        tables = [table for table in tables if table.num_rows]
        if tables:
            return scalars.scalars(pa.concat_tables(tables), y=statistic.replace("_", " "))
    return None


def _of_devices(sources: Sources, names: list[str]) -> Any:
    """The utilization of the devices of a finding: ``node/gpu0``, or ``node`` for its CPU."""
    table = sources.machine
    if not table.num_rows or not names:
        return None
    devices = pc.binary_join_element_wise(table["node"], table["device"], "/")
    is_named = pc.or_(
        pc.is_in(devices, pa.array(names)),
        pc.and_(pc.is_in(table["node"], pa.array(names)), pc.equal(table["device"], "total")),
    )
    is_utilization = pc.and_(is_named, pc.equal(table["metric"], "utilization_percent"))
    selected = table.filter(is_utilization)
    return usage.usage(selected) if selected.num_rows else None


def _of_steps(sources: Sources) -> Any:
    figure = step_charts.step_durations(sources.digest, mode="train")
    return figure if figure.data else None


def _evidence(row: dict[str, Any]) -> tuple[Table, ...]:
    evidence = json.loads(row["evidence"] or "{}")
    rows = [{"name": name, "value": _value(value)} for name, value in evidence.items()]
    return (table_of(rows, {"name": "evidence", "value": "value"}, limit=30),) if rows else ()


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return format_cell(value)


def _rule_of(sources: Sources, alias: str) -> str:
    return next((spec.rule for spec in sources.run.manifest.rules if spec.alias == alias), alias)
