"""The sections on configuration, environment and reproduction of a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from leadline.records import describe
from leadline.records.formatting import size
from leadline.records.plan import CaptureItem
from leadline.reports.section import Columns, Section, Table, empty, table_of
from leadline.reports.sources import Sources
from leadline.store.run_state import read_nodes


def configuration(sources: Sources) -> Section:
    """Preset, capture items, rules and actions as resolved."""
    manifest = sources.run.manifest
    budget = manifest.plan.budget
    text = (
        f"Preset {manifest.preset}; system metrics every {manifest.interval_ms} ms; overhead budget "
        f"{'off' if budget is None else f'{100 * budget:g} %'}.",
    )
    captured = [_item(item) for item in manifest.plan.items]
    rules = [
        {"name": spec.alias, "rule": spec.rule, "parameters": _format(spec.parameters), "source": spec.source}
        for spec in manifest.rules
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
    text = [
        "Run the same training with the same configuration:",
        f"cd {shlex.quote(manifest.folder or '.')}",
        f"leadline run --config {shlex.quote(sources.run.uri)} -- {shlex.join(manifest.command)}",
        "Secrets in the command are masked (****) and must be given again. Data, seeds and code are not recorded.",
        f"Rebuild this report: leadline report {shlex.quote(sources.run.uri)}",
    ]
    return Section("reproduce", "How to reproduce", tuple(text))


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
    rows = []
    for worker in sources.run.worker_documents().values():
        lists = {"optimizers": ", ".join(worker.optimizers), "notes": "; ".join(worker.notes)}
        rows.append({**worker.fields(), "models": ", ".join(describe.models([worker])), **lists})
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
