"""The section on what the rules found, in the order in which it happened, each finding with the chart that shows it."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.figures import marks, scalars, steps, usage
from leadline.records.formatting import counted
from leadline.reports.section import Chart, Columns, Section, Table, empty, format_cell, table_of
from leadline.reports.sources import POINTS, Sources
from leadline.rules.documentation import read_documentation

_MOST_SHOWN: Final = 25
"""Findings told in full."""
_MOST_CHARTED: Final = 12
_MOST_TENSORS: Final = 6


def findings(sources: Sources) -> Section:
    """Every finding: a table of all, and each of the first in full."""
    rows = sorted(sources.run.findings().to_pylist(), key=lambda each: (each["time_ns"], each["step"]))
    if not rows:
        judged = sources.said["rules"]
        why = "the rules found nothing" if judged else "no rule judged this run; judge it with: leadline judge"
        return empty("findings", "Findings", why)
    parts = tuple(_part(sources, place, row) for place, row in enumerate(rows[:_MOST_SHOWN]))
    more = len(rows) - _MOST_SHOWN
    told = [f"{counted(len(rows), 'finding')}, in the order in which they happened."]
    told += [f"The first {_MOST_SHOWN} are told in full below."] if more > 0 else []
    return Section("findings", "Findings", tuple(told), (), (_table(sources, rows),), parts)


def _table(sources: Sources, rows: list[dict[str, Any]]) -> Table:
    told = [
        {
            **row,
            "moment": sources.moment(row["time_ns"]),
            "until": row["last_step"] if row["count"] > 1 else None,
            "what": row["message"],
            "state": "goes on" if row["is_open"] else "over",
        }
        for row in rows
    ]
    columns: Columns = {
        "moment": "moment",
        "rule": "rule",
        "step": "step",
        "until": "until step",
        "what": "what",
        "state": "state",
    }
    return table_of(told, columns, most=200)


def _part(sources: Sources, place: int, row: dict[str, Any]) -> Section:
    told = read_documentation(_rule_of(sources, row["rule"]))
    words = [f"{row['message']}."]
    words += [f"What it means: {told.section('Why it matters')}"] if told else []
    explained = next((each["explained_by"] for each in sources.said["rules"] if each["name"] == row["rule"]), None)
    if explained:
        words.append(f"It usually follows from what {explained} found.")
    elif row["suggestion"]:
        words.append(f"Try: {row['suggestion']}.")
    if row["tensor_count"]:
        named = ", ".join(row["tensors"][:_MOST_TENSORS])
        more = row["tensor_count"] - len(row["tensors"][:_MOST_TENSORS])
        words.append(f"On {named}{f' and {more:,} more' if more > 0 else ''}.")
    chart = chart_of(sources, row) if place < _MOST_CHARTED else None
    title = f"Step {row['step']:,}: {row['rule']}"
    return Section(f"{place + 1}", title, tuple(words), (chart,) if chart else (), _evidence(row))


def chart_of(sources: Sources, row: dict[str, Any]) -> Chart | None:
    """The chart that shows a finding, with the moment marked: its tensors, its devices, or the steps; None: there is
    none."""
    figure = _of_tensors(sources, row["tensors"]) or _of_devices(sources, row["tensors"]) or _of_steps(sources)
    if figure is None:
        return None
    return Chart(marks.mark(figure, [row]))


def _of_tensors(sources: Sources, names: list[str]) -> Any:
    """The tensors over steps: their values where they are single numbers, else the first statistic that all have."""
    known = [name for name in names if name in set(sources.run.tensor_names())][:_MOST_TENSORS]
    for statistic in ("value", "abs_mean", "l2", "abs_max", "mean", "std"):
        found = [sources.digest.statistic(name, statistic, points=POINTS) for name in known]
        found = [each for each in found if each.num_rows]
        if found:
            words = "value" if statistic == "value" else statistic.replace("_", " ")
            return scalars.scalars(pa.concat_tables(found), y=words)
    return None


def _of_devices(sources: Sources, names: list[str]) -> Any:
    """The use of the devices that a rule of the machine names: ``node/gpu0``, or ``node`` for its CPU."""
    table = sources.machine
    if not table.num_rows or not names:
        return None
    places = pc.binary_join_element_wise(table["node"], table["device"], "/")
    is_named = pc.or_(
        pc.is_in(places, pa.array(names)),
        pc.and_(pc.is_in(table["node"], pa.array(names)), pc.equal(table["device"], "total")),
    )
    is_use = pc.and_(is_named, pc.equal(table["metric"], "utilization_percent"))
    chosen = table.filter(is_use)
    return usage.usage(chosen) if chosen.num_rows else None


def _of_steps(sources: Sources) -> Any:
    table = sources.digest.steps(mode="train", points=POINTS)
    return steps.durations(table) if table.num_rows else None


def _evidence(row: dict[str, Any]) -> tuple[Table, ...]:
    evidence = json.loads(row["evidence"] or "{}")
    rows = [{"name": name, "value": _value(each)} for name, each in evidence.items()]
    return (table_of(rows, {"name": "evidence", "value": "value"}, most=30),) if rows else ()


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return format_cell(value)


def _rule_of(sources: Sources, alias: str) -> str:
    return next((spec.rule for spec in sources.run.manifest.rules if spec.alias == alias), alias)
