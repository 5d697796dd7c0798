"""The section of the findings: a table of all of them, and details of the first ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.charts import marks, scalars, step_charts, usage
from leadline.charts.chart import ChartView
from leadline.charts.theme import plain_text
from leadline.reader.table_rows import FindingRow
from leadline.records.finding import MAX_SHOWN_TENSORS
from leadline.records.formatting import counted, moment
from leadline.records.opposite_advice import StandingAdvice
from leadline.reports.section import Chart, Columns, Section, Table, empty, format_value, plain_prose, table_of
from leadline.reports.sources import POINTS, Sources
from leadline.rules.documentation import read_documentation

_MAX_DETAILED: Final = 25
"""The maximum number of findings with details."""
_MAX_FINDING_CHARTS: Final = 12
_MAX_TENSORS: Final = 6
_AROUND_STEPS: Final = 50
"""Steps drawn before and after a finding."""
_LEAST_STEPS: Final = 3


def findings(sources: Sources) -> Section:
    """A table of all findings, the worst first, and the details of the first ones."""
    ranks = {rule.name: rank for rank, rule in enumerate(sources.outcome.findings_ranked)}
    rows = sources.run.findings().to_pylist()
    rows.sort(key=lambda row: (ranks.get(row["rule"], len(ranks)), row["time_ns"], row["step"]))
    causes = {rule.name: rule.explained_by for rule in sources.outcome.findings_ranked}
    effects: dict[str, list[FindingRow]] = {}
    for row in rows:
        effects.setdefault(causes.get(row["rule"]) or "", []).append(row)
    folded = len(rows)
    rows = effects.pop("", [])
    folded -= len(rows)
    if not rows:
        rules = sources.summary["rules"]
        why = "the rules have no findings" if rules else "no rules were evaluated; evaluate them with: leadline judge"
        return empty("findings", "Findings", why)
    parts = tuple(
        _part(sources, index, row, effects.get(row["rule"], ())) for index, row in enumerate(rows[:_MAX_DETAILED])
    )
    more = len(rows) - _MAX_DETAILED
    text = [f"{counted(len(rows), 'finding')}, the worst first."]
    follow = "follows from them is listed with its" if folded == 1 else "follow from them are listed with their"
    text += [f"{counted(folded, 'finding')} that {follow} cause."] if folded else []
    text += [f"Details of the first {_MAX_DETAILED} follow."] if more > 0 else []
    return Section("findings", "Findings", tuple(text), (), (_table(sources, rows),), parts)


def _table(sources: Sources, rows: list[FindingRow]) -> Table:
    still = "open" if sources.summary["ended"] is None else "until the end"
    shown = [
        {
            **row,
            "time": moment(row["time_ns"]),
            "until": row["last_step"] if row["count"] > 1 else None,
            "message": row["message"],
            "state": still if row["is_open"] else "resolved",
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


def _part(sources: Sources, index: int, row: FindingRow, effects: Sequence[FindingRow]) -> Section:
    documentation = read_documentation(_rule_of(sources, row["rule"]))
    text = [f"{row['message']}."]
    if row["suggestion"]:
        suggestion = StandingAdvice.of(sources.outcome.findings_ranked).agreeing(row["suggestion"])
        text.append(f"Try: {suggestion}.")
    text += [f"Why it matters: {plain_prose(documentation.section('Why it matters'))}"] if documentation else []
    if row["tensor_count"]:
        names = ", ".join(row["tensors"][:_MAX_TENSORS])
        more = row["tensor_count"] - len(row["tensors"][:_MAX_TENSORS])
        text.append(f"Affected: {names}{f' and {more:,} more' if more > 0 else ''}.")
    tables = _evidence(row)
    if effects:
        text.append(f"It explains {counted(len(effects), 'finding')} of other rules, listed below.")
        tables += (_table(sources, list(effects)),)
    chart = chart_of(sources, row) if index < _MAX_FINDING_CHARTS else None
    title = f"Step {row['step']:,}: {row['rule']}"
    return Section(f"{index + 1}", title, tuple(text), (chart,) if chart else (), tables)


def chart_of(sources: Sources, row: FindingRow) -> Chart | None:
    """The tensors, devices or steps of a finding around its step, with the finding marked; None without data."""
    around = (max(0, row["step"] - _AROUND_STEPS), row["step"] + _AROUND_STEPS + 1)
    figure = (
        _of_tensors(sources, row["tensors"][:MAX_SHOWN_TENSORS], around)
        or _of_devices(sources, row["tensors"])
        or _of_steps(sources, around)
    )
    if figure is None:
        return None
    return Chart(marks.mark(figure, [row]))


def _of_tensors(sources: Sources, names: list[str], around: tuple[int, int]) -> Any:
    """The tensors over the steps: their values if they are scalars, else the first available statistic.

    Where fewer than three steps were captured around the finding, all steps are drawn.
    """
    known = [name for name in names if name in set(sources.run.tensor_names())][:_MAX_TENSORS]
    for statistic in ("value", "abs_mean", "l2", "abs_max", "mean", "std"):
        for first, end in (around, (None, None)):
            tables = [
                sources.digest.statistic(name, statistic, start_step=first, end_step=end, points=POINTS)
                for name in known
            ]
            least = _LEAST_STEPS if first is not None else 1
            tables = [table for table in tables if len(pc.unique(table["step"])) >= least]
            if tables:
                title = _title(known, statistic)
                return scalars.scalars(pa.concat_tables(tables), title=title)
    return None


def _title(names: Sequence[str], statistic: str) -> str:
    named = plain_text(names[0], 60) if len(names) == 1 else f"{len(names)} tensors"
    return named if statistic == "value" else f"{statistic.replace('_', ' ')} of {named}"


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


def _of_steps(sources: Sources, around: tuple[int, int]) -> Any:
    view = ChartView(sources.digest, start_step=around[0], end_step=around[1])
    figure = step_charts.step_durations(view, mode="train")
    return figure if figure.data else None


def _evidence(row: FindingRow) -> tuple[Table, ...]:
    evidence = json.loads(row["evidence"] or "{}")
    rows = [{"name": name.replace("_", " "), "value": format_value(value)} for name, value in evidence.items()]
    return (table_of(rows, {"name": "evidence", "value": "value"}, limit=30),) if rows else ()


def _rule_of(sources: Sources, alias: str) -> str:
    return next((spec.rule for spec in sources.run.manifest.rules if spec.alias == alias), alias)
