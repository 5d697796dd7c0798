"""The training chapter: losses, layers, configuration and reproduction, with the section of the findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import pyarrow as pa

from leadline.analysis.trees import trains_trees
from leadline.charts import tensor_charts
from leadline.charts.chart import ChartView
from leadline.records import describe
from leadline.records.formatting import counted, size, worker_labels
from leadline.records.manifest import RuleSpec
from leadline.records.names import MODES
from leadline.records.plan import CaptureItem
from leadline.reports.findings import findings
from leadline.reports.section import (
    Chapter,
    Chart,
    Column,
    Columns,
    Section,
    Table,
    empty,
    table_of,
)
from leadline.reports.sources import POINTS, Sources
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


def _item(item: CaptureItem) -> dict[str, object]:
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
        lists: dict[str, object] = {"optimizers": ", ".join(worker.optimizers), "notes": "; ".join(worker.notes)}
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
