"""The section on the rules of machine and steps: what each looks for, what it found, and how often."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from leadline.records.formatting import counted
from leadline.reports.section import Column, Columns, Section, Table, empty, format_cell, table_of
from leadline.reports.sources import Sources
from leadline.rules.documentation import read_documentation
from leadline.rules.registry import canonical
from leadline.store import layout
from leadline.store.documents import read_document

PROFILING: Final = (
    "max_initialization_time",
    "cpu_bottleneck",
    "io_bottleneck",
    "dataloader",
    "low_gpu_utilization",
    "batch_size",
    "gpu_memory_increase",
    "load_balancing",
    "step_outlier",
    "operator_time",
    "cpu_utilization",
    "hardware_utilization",
    "input_bound",
    "straggler",
    "memory_growth",
    "throughput_regression",
    "gpu_throttling",
)
_MORE: Final = (
    "all of them are judged by: leadline report --judge; "
    "next time, while it runs: leadline run --rule profiler_report …"
)


def rules_summary(sources: Sources) -> Section:
    """Each rule of the profiler: description, recommendation, how often it fired, on how much data, parameters."""
    rows = read_states(sources)
    if not rows:
        return empty("rules-summary", "Rules summary", f"this run judged none of the profiler's rules; {_MORE}")
    fired = [row for row in rows if row["verdict"] == "fired"]
    said = f"{counted(len(fired), 'rule')} of {len(rows)} fired." if fired else f"None of {len(rows)} rules fired."
    parts = tuple(_part(row) for row in sorted(rows, key=lambda each: each["verdict"] != "fired"))
    words = (said,) if _are_all(rows) else (said, f"Only the rules that this run judged are told; {_MORE}")
    return Section("rules-summary", "Rules summary", words, (), (_table(rows),), parts)


def _are_all(rows: list[dict[str, Any]]) -> bool:
    """Whether those that ``profiler_report`` invokes are there."""
    return {"cpu_bottleneck", "step_outlier"} <= {row["rule"] for row in rows}


def read_states(sources: Sources) -> list[dict[str, Any]]:
    """How each rule of the profiler stands: as told for this report, as profiler_report keeps it, and by itself."""
    rows: dict[str, dict[str, Any]] = {}
    for each in sources.said["rules"]:
        document = read_document(os.path.join(sources.run.path, layout.rule_status(each["name"])))
        document = document if isinstance(document, dict) else {}
        if canonical(each["rule"]) == "profiler_report":
            for part in document.get("product", {}).get("rules", ()):
                rows.setdefault(part["rule"], part)
        elif canonical(each["rule"]) in PROFILING:
            rows[each["rule"]] = _own(each, document)
    for part in sources.judged or ():
        rows.setdefault(part["rule"], part)
    return [rows[name] for name in PROFILING if name in rows]


def _own(rule: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A rule of the run in the words of profiler_report."""
    findings = rule["findings"]
    keys = ("step", "message", "suggestion", "evidence")
    return {
        "rule": rule["rule"],
        "verdict": rule["verdict"] or rule["status"],
        "times_triggered": len(findings),
        "moments": document.get("judged_steps"),
        "parameters": document.get("parameters", {}),
        "why": rule["why"] or "",
        "first": {key: findings[0][key] for key in keys} if findings else {},
    }


def _table(rows: Iterable[dict[str, Any]]) -> Table:
    told = [{**row, "fires": _description(row["rule"]), "why": _why(row)} for row in rows]
    columns: Columns = {
        "rule": "rule",
        "fires": "what it looks for",
        "verdict": "verdict",
        "times_triggered": "times triggered",
        "moments": Column("data points", "moments judged"),
        "why": "what it saw",
    }
    return table_of(told, columns)


def _why(row: dict[str, Any]) -> str:
    if row["first"]:
        return f"step {row['first']['step']:,}: {row['first']['message']}"
    return str(row["why"]) if row["verdict"] == "undecided" else ""


def _part(row: dict[str, Any]) -> Section:
    """One rule in full."""
    told, first = read_documentation(row["rule"]), row["first"]
    paragraphs = [told.summary, told.section("Why it matters")] if told else []
    if first:
        paragraphs.append(f"Found first at step {first['step']:,}: {first['message']}.")
        paragraphs += [f"Try: {first['suggestion']}."] if first["suggestion"] else []
    elif row["verdict"] == "undecided":
        paragraphs.append(f"Undecided: {row['why']}.")
    else:
        paragraphs.append("Found nothing.")
    return Section(row["rule"].replace("_", "-"), row["rule"], tuple(filter(None, paragraphs)), (), _details(row))


def _details(row: dict[str, Any]) -> tuple[Table, ...]:
    told = read_documentation(row["rule"])
    about = {each.name: each.about for each in told.parameters} if told else {}
    parameters = [
        {"name": name, "value": _value(each), "about": about.get(name, "")} for name, each in row["parameters"].items()
    ]
    evidence = [{"name": name, "value": _value(each)} for name, each in row["first"].get("evidence", {}).items()]
    tables = []
    if evidence:
        tables.append(table_of(evidence, {"name": "evidence", "value": "value"}))
    if parameters:
        tables.append(table_of(parameters, {"name": "parameter", "value": "value", "about": "what it is"}))
    return tuple(tables)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value))
    return format_cell(value) if value is not None else "none"


def _description(rule: str) -> str:
    told = read_documentation(rule)
    return told.summary if told else ""
