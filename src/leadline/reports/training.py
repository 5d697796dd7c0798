"""The training chapter: losses, layers, findings, configuration and reproduction."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.trees import trains_trees
from leadline.charts import marks, scalars, step_charts, tensor_charts, usage
from leadline.charts.chart import ChartView
from leadline.charts.theme import plain_text
from leadline.records import describe
from leadline.records.formatting import counted, moment, size, worker_labels
from leadline.records.manifest import RuleSpec
from leadline.records.names import MODES
from leadline.records.plan import CaptureItem
from leadline.reports.section import (
    Chapter,
    Chart,
    Column,
    Columns,
    Section,
    Table,
    empty,
    format_value,
    plain_prose,
    table_of,
)
from leadline.reports.sources import POINTS, Sources
from leadline.rules.documentation import read_documentation
from leadline.store.run_state import read_nodes

_MAX_CHARTS: Final = 24
"""The maximum number of drawn metrics; the table contains all scalars."""
_LAYER_POINTS: Final = 450
"""A heat map has a third as many columns."""
_LAYERS: Final = (
    ("gradients", "gradients", "Gradients over layers and steps", ("abs_mean", "l2", "abs_max")),
    ("weights", "weights", "Weights over layers and steps", ("update_ratio", "l2", "abs_mean")),
)
_OF_RULE: Final = "rule:"
"""Before the name of the rule for which an item is captured."""
_MAX_DETAILED: Final = 25
"""The maximum number of findings with details."""
_MAX_FINDING_CHARTS: Final = 12
_MAX_TENSORS: Final = 6
_AROUND_STEPS: Final = 50
"""Steps drawn before and after a finding."""
_LEAST_STEPS: Final = 3


def losses(sources: Sources) -> Section:
    """Charts of losses, metrics and logged scalars, and their first, last and extreme values by mode."""
    names = list(dict.fromkeys(name for name, _ in sources.digest.scalar_names()))
    shown = [name for name in names if not _is_bookkeeping(sources, name)]
    if not shown:
        return empty("losses", "Losses and metrics", "no loss, metric or scalar was captured")
    tables = {name: sources.digest.scalar(name, points=POINTS) for name in shown}
    width: Literal["half", "full"]
    families = [names for group in tensor_charts.metrics(sources.digest).values() for names in group.values()]
    drawn = [names[0] for names in families if not set(names).isdisjoint(shown)]
    width = "half" if len(drawn) > 1 else "full"
    charts = tuple(Chart(tensor_charts.metric(sources.digest, name), width=width) for name in drawn[:_MAX_CHARTS])
    more = len(drawn) - _MAX_CHARTS
    text = (f"{counted(more, 'more metric')} in the table; leadline ui shows the charts.",) if more > 0 else ()
    return Section("losses", "Losses and metrics", text, charts, (_scalar_table(tables),))


def _is_bookkeeping(sources: Sources, name: str) -> bool:
    """Whether a scalar is neither loss, metric nor logged: a gradient norm or a hyperparameter."""
    info = sources.run.archive.infos().get(name)
    return info is not None and not {"losses", "metrics", "scalars"} & set(info.collections)


def _scalar_table(tables: dict[str, pa.Table]) -> Table:
    rows = []
    for name, table in tables.items():
        for mode in sorted(set(table["mode"].to_pylist()), key=MODES.index):
            points = [row for row in table.to_pylist() if row["mode"] == mode]
            points.sort(key=lambda row: int(row["step"]))
            rows.append(
                {
                    "name": name,
                    "mode": mode,
                    "first": points[0]["value"],
                    "last": points[-1]["value"],
                    "min": _extreme(points, "min", min),
                    "max": _extreme(points, "max", max),
                    "samples": sum(row["samples"] for row in points),
                    "nonfinite": sum(row["nonfinite"] for row in points),
                }
            )
    columns: Columns = {
        "name": "name",
        "mode": "mode",
        "first": "first",
        "last": "last",
        "min": "min",
        "max": "max",
        "samples": "values",
        "nonfinite": Column("NaN or infinite"),
    }
    return table_of(rows, columns, limit=200)


def _extreme(rows: list[dict[str, float]], key: str, choose: Callable[[list[float]], float]) -> float | None:
    finite = [row[key] for row in rows if row[key] == row[key]]
    return choose(finite) if finite else None


def layers(sources: Sources, collection: str, key: str, title: str, statistics: tuple[str, ...]) -> Section:
    """A heat map of all tensors of a collection, by the first of the statistics that was captured."""
    captured = sources.digest.captured()
    for statistic in statistics:
        figure = tensor_charts.layers(ChartView(sources.digest, points=_LAYER_POINTS), collection, statistic)
        if figure.data:
            names = sources.run.tensor_names(collection=collection)
            count = sum(statistic in captured.get(name, ()) for name in names)
            text = f"{statistic.replace('_', ' ')} of {count:,} {collection}, input layers at the top."
            return Section(key, title, (text,), (Chart(figure),))
    return empty(key, title, f"no {collection} were captured; the preset standard captures them every 50 steps")


def findings(sources: Sources) -> Section:
    """A table of all findings, the worst first, and the details of the first ones."""
    ranks = {rule.name: rank for rank, rule in enumerate(sources.outcome.findings_ranked)}
    rows = sources.run.findings().to_pylist()
    rows.sort(key=lambda row: (ranks.get(row["rule"], len(ranks)), row["time_ns"], row["step"]))
    causes = {rule.name: rule.explained_by for rule in sources.outcome.findings_ranked}
    effects: dict[str, list[dict[str, Any]]] = {}
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
    text += [f"{counted(folded, 'finding')} that follow from them are listed with their cause."] if folded else []
    text += [f"Details of the first {_MAX_DETAILED} follow."] if more > 0 else []
    return Section("findings", "Findings", tuple(text), (), (_table(sources, rows),), parts)


def _table(sources: Sources, rows: list[dict[str, Any]]) -> Table:
    shown = [
        {
            **row,
            "time": moment(row["time_ns"]),
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


def _part(sources: Sources, index: int, row: dict[str, Any], effects: Sequence[dict[str, Any]]) -> Section:
    documentation = read_documentation(_rule_of(sources, row["rule"]))
    text = [f"{row['message']}."]
    if row["suggestion"]:
        text.append(f"Try: {row['suggestion']}.")
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


def chart_of(sources: Sources, row: dict[str, Any]) -> Chart | None:
    """The tensors, devices or steps of a finding around its step, with the finding marked; None without data."""
    around = (max(0, row["step"] - _AROUND_STEPS), row["step"] + _AROUND_STEPS + 1)
    figure = (
        _of_tensors(sources, row["tensors"], around)
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


def _evidence(row: dict[str, Any]) -> tuple[Table, ...]:
    evidence = json.loads(row["evidence"] or "{}")
    rows = [{"name": name.replace("_", " "), "value": format_value(value)} for name, value in evidence.items()]
    return (table_of(rows, {"name": "evidence", "value": "value"}, limit=30),) if rows else ()


def _rule_of(sources: Sources, alias: str) -> str:
    return next((spec.rule for spec in sources.run.manifest.rules if spec.alias == alias), alias)


def configuration(sources: Sources) -> Section:
    """Preset, capture items, rules and actions as resolved."""
    manifest = sources.run.manifest
    budget = manifest.plan.budget
    text: tuple[str, ...] = (
        f"Preset {manifest.preset}; system metrics every {manifest.interval_ms} ms; overhead budget "
        f"{'off' if budget is None else f'{100 * budget:g} %'}.",
    )
    captured = [_item(item) for item in manifest.plan.items if not item.source.startswith(_OF_RULE)]
    of_rules = len(manifest.plan.items) - len(captured)
    text += (f"Rules add {counted(of_rules, 'capture item')} for what they evaluate.",) if of_rules else ()
    plain = [spec.rule for spec in manifest.rules if _is_plain_default(spec)]
    text += (f"Default rules with default parameters: {', '.join(plain)}.",) if plain else ()
    rules = [
        {"name": spec.alias, "rule": spec.rule, "parameters": _format(spec.parameters), "source": spec.source}
        for spec in manifest.rules
        if not _is_plain_default(spec)
    ]
    actions = [
        {"rule": spec.rule, "statuses": ", ".join(spec.statuses), "action": str(spec)} for spec in manifest.actions
    ]
    tables = (
        table_of(
            captured,
            {
                "collection": "collection",
                "statistics": "statistics",
                "when": "when",
                "modes": "modes",
                "source": "source",
            },
            title="Captured",
        ),
        table_of(
            rules,
            {"name": "name", "rule": "rule", "parameters": "parameters", "source": "source"},
            title="Rules",
        ),
        table_of(actions, {"rule": "rule", "statuses": "on", "action": "action"}, title="Actions"),
    )
    return Section("configuration", "Configuration", text, (), tuple(table for table in tables if table.rows))


def _is_plain_default(spec: RuleSpec) -> bool:
    return spec.source == "default" and spec.alias == spec.rule and not spec.parameters


def environment(sources: Sources) -> Section:
    """Versions, nodes and workers."""
    tables = [_versions(sources), _nodes(sources), _workers(sources)]
    shown = tuple(table for table in tables if table.rows)
    return (
        Section("environment", "Environment", (), (), shown)
        if shown
        else empty("environment", "Environment", "no node or worker was recorded")
    )


def reproduction(sources: Sources) -> Section:
    """Commands to repeat the run and the report."""
    manifest = sources.run.manifest
    text = (
        "These commands repeat the training with the same configuration, and build this report again. Secrets in the "
        "command are masked (****) and must be given again. Data, seeds and code are not recorded."
    )
    commands = (
        f"cd {shlex.quote(manifest.folder or '.')}",
        f"leadline run --config {shlex.quote(sources.run.uri)} -- {shlex.join(manifest.command)}",
        f"leadline report {shlex.quote(sources.run.uri)}",
    )
    return Section("reproduce", "How to reproduce", (text,), commands=commands)


def _item(item: CaptureItem) -> dict[str, Any]:
    name = item.custom or item.collection or "all"
    when = item.schedule
    parts = [f"every {when.every} steps" if when.every and when.every > 1 else "every step" if when.every else ""]
    parts += [f"every {when.every_seconds:g} s"] if when.every_seconds else []
    parts += [f"at {', '.join(map(str, when.steps))}"] if when.steps else []
    parts += [f"from {when.start}"] if when.start else []
    parts += [f"before {when.end}"] if when.end else []
    statistics = [*item.statistics, *(["raw tensors"] if item.raw else [])]
    return {
        "collection": f"{name} ~ {item.regex}" if item.regex else name,
        "statistics": ", ".join(statistics),
        "when": ", ".join(filter(None, parts)),
        "modes": ", ".join(item.modes),
        "source": item.source,
    }


def _versions(sources: Sources) -> Table:
    manifest = sources.run.manifest
    rows = [{"name": "leadline", "version": manifest.leadline}]
    rows += [{"name": name, "version": version} for name, version in manifest.versions.items() if name != "leadline"]
    return table_of(rows, {"name": "software", "version": "version"}, title="Versions")


def _nodes(sources: Sources) -> Table:
    rows = []
    for node in read_nodes(sources.run.path):
        gpus = node.gpu_names
        rows.append(
            {
                "node": node.node,
                "cores": node.cpu_count,
                "memory": size(node.memory_bytes) if node.memory_bytes is not None else None,
                "gpus": ", ".join(f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)) or "none",
            }
        )
    columns: Columns = {"node": "node", "cores": "cores", "memory": "memory", "gpus": "GPUs"}
    return table_of(rows, columns, title="Nodes")


def _workers(sources: Sources) -> Table:
    rows, labels = [], worker_labels(sources.run.worker_documents())
    for name, worker in sources.run.worker_documents().items():
        lists = {"optimizers": ", ".join(worker.optimizers), "notes": "; ".join(worker.notes)}
        rows.append(
            {**worker.fields(), "worker": labels[name], "models": ", ".join(describe.models([worker])), **lists}
        )
    columns: Columns = {
        "worker": "worker",
        "node": "node",
        "framework": "framework",
        "models": "model",
        "optimizers": "optimizer",
        "state": "state",
        "notes": "notes",
    }
    return table_of(rows, columns, title="Workers", limit=64)


def _format(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


SECTIONS: Final[tuple[Callable[[Sources], Section], ...]] = (
    losses,
    lambda sources: layers(sources, *_LAYERS[0]),
    lambda sources: layers(sources, *_LAYERS[1]),
    findings,
    configuration,
    environment,
    reproduction,
)


def chapter(sources: Sources) -> Chapter:
    """The chapter with its seven sections; boosted trees have no layers."""
    sections = [make(sources) for make in SECTIONS]
    if trains_trees(sources.run.path):
        names = {name for name, *_ in _LAYERS}
        sections = [section for section in sections if not (section.key in names and section.why_empty)]
    return Chapter("training", "Training", tuple(sections))
