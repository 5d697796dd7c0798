"""The section on the profiler rules: what they detect, what they found, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from leadline.analysis.overview_document import FindingDocument, RuleOverview
from leadline.records.documents import RuleDocument
from leadline.records.formatting import counted
from leadline.records.profiled_rule import FirstFinding, ProfiledRule
from leadline.reports.section import Columns, Section, Table, empty, format_value, plain_prose, table_of
from leadline.reports.sources import Sources
from leadline.rules.documentation import read_documentation
from leadline.rules.registry import canonical
from leadline.store.run_state import read_rule

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
    "evaluate all of them with leadline report --judge, or during a run with leadline run --rule profiler_report …"
)


def rules_summary(sources: Sources) -> Section:
    """The profiler rules that fired, in full, and all others in one table."""
    rows = read_states(sources)
    if not rows:
        return empty("rules-summary", "Rules summary", f"no profiler rules were evaluated in this run; {_MORE}")
    applicable = [row for row in rows if row["verdict"] != "not_applicable"]
    fired = [row for row in applicable if row["verdict"] == "fired"]
    count = f"{len(fired) or 'None'} of {counted(len(applicable), 'applicable rule')} fired."
    parts = tuple(map(_part, fired))
    others = tuple(table for table in (_table(row for row in rows if row["verdict"] != "fired"),) if table.rows)
    text = (count,) if _are_all(rows) else (count, f"Only the rules evaluated in this run are listed; {_MORE}.")
    return Section("rules-summary", "Rules summary", text, (), others, parts)


def _are_all(rows: list[ProfiledRule]) -> bool:
    """Whether the rows include the rules of ``profiler_report``."""
    return {"cpu_bottleneck", "step_outlier"} <= {row["rule"] for row in rows}


def read_states(sources: Sources) -> list[ProfiledRule]:
    """The results of the profiler rules: by their own status, in the product of profiler_report, or of this report."""
    rows: dict[str, ProfiledRule] = {}
    for rule in sources.summary["rules"]:
        document = read_rule(sources.run.path, rule["name"]) or RuleDocument()
        if canonical(rule["rule"]) == "profiler_report":
            for result in document.product.get("rules", ()):
                rows.setdefault(result["rule"], result)
        elif canonical(rule["rule"]) in PROFILING:
            rows[rule["rule"]] = _result(rule, document)
    for result in sources.judged or ():
        rows.setdefault(result["rule"], result)
    return [rows[name] for name in PROFILING if name in rows]


def _result(rule: RuleOverview, document: RuleDocument) -> ProfiledRule:
    """The result of a rule of the run in the form of profiler_report."""
    findings = rule["findings"]
    return {
        "rule": rule["rule"],
        "verdict": rule["verdict"] or rule["status"],
        "times_triggered": len(findings),
        "moments": document.judged_steps,
        "parameters": document.parameters,
        "why": rule["why"] or "",
        "first": _first(findings[0]) if findings else {},
    }


def _first(finding: FindingDocument) -> FirstFinding:
    return {
        "step": finding["step"],
        "message": finding["message"],
        "suggestion": finding["suggestion"],
        "evidence": finding["evidence"],
    }


def _table(rows: Iterable[ProfiledRule]) -> Table:
    shown = [
        {
            **row,
            "fires": _description(row["rule"]).removeprefix("Fires when "),
            "verdict": row["verdict"].replace("_", " "),
            "why": _why(row),
        }
        for row in rows
    ]
    columns: Columns = {
        "rule": "rule",
        "fires": "fires when",
        "verdict": "verdict",
        "moments": "evaluated steps",
        "why": "result",
    }
    return table_of(shown, columns, title="Rules that did not fire")


def _why(row: ProfiledRule) -> str:
    return str(row["why"]) if row["verdict"] in ("undecided", "not_applicable") else ""


def _part(row: ProfiledRule) -> Section:
    """The subsection of a rule that fired."""
    documentation, first = read_documentation(row["rule"]), row["first"]
    times = counted(row["times_triggered"], "time")
    judged = f", in {counted(row['moments'], 'evaluated step')}" if row["moments"] is not None else ""
    paragraphs = [f"Fired {times}{judged}."]
    if first:
        paragraphs[0] += f" First finding at step {first['step']:,}: {first['message']}."
        paragraphs += [f"Try: {first['suggestion']}."] if first["suggestion"] else []
    if documentation:
        paragraphs += [plain_prose(text) for text in (documentation.summary, documentation.section("Why it matters"))]
    return Section(row["rule"].replace("_", "-"), row["rule"], tuple(filter(None, paragraphs)), (), _details(row))


def _details(row: ProfiledRule) -> tuple[Table, ...]:
    documentation = read_documentation(row["rule"])
    about = {parameter.name: parameter.about for parameter in documentation.parameters} if documentation else {}
    parameters = [
        {"name": name, "value": _value(value), "about": about.get(name, "")}
        for name, value in row["parameters"].items()
    ]
    evidence = [
        {"name": name.replace("_", " "), "value": _value(value)}
        for name, value in row["first"].get("evidence", {}).items()
    ]
    tables = []
    if evidence:
        tables.append(table_of(evidence, {"name": "evidence", "value": "value"}))
    if parameters:
        tables.append(table_of(parameters, {"name": "parameter", "value": "value", "about": "description"}))
    return tuple(tables)


def _value(value: Any) -> str:
    return "none" if value is None else format_value(value)


def _description(rule: str) -> str:
    documentation = read_documentation(rule)
    return plain_prose(documentation.summary) if documentation else ""
