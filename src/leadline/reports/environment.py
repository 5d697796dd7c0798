"""The sections on what was asked for, on what it ran, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from leadline.reader import liveness
from leadline.records.formatting import model, size
from leadline.records.plan import CaptureItem
from leadline.reports.section import Columns, Section, Table, empty, table_of
from leadline.reports.sources import Sources


def configuration(sources: Sources) -> Section:
    """Preset, captured collections, rules and actions as they were resolved."""
    manifest = sources.run.manifest
    budget = manifest.plan.budget
    words = (
        f"Preset {manifest.preset}; the machine was sampled every {manifest.interval_ms} ms; overhead budget "
        f"{'off' if budget is None else f'{100 * budget:g} %'}.",
    )
    captured = [_item(each) for each in manifest.plan.items]
    rules = [
        {"name": each.alias, "rule": each.rule, "parameters": _spoken(each.parameters), "source": each.source}
        for each in manifest.rules
    ]
    actions = [
        {"rule": each.rule, "statuses": ", ".join(each.statuses), "action": str(each)} for each in manifest.actions
    ]
    tables = (
        table_of(
            captured,
            {"what": "captured", "statistics": "statistics", "when": "when", "modes": "modes", "source": "asked by"},
            title="Captured",
        ),
        table_of(
            rules,
            {"name": "name", "rule": "rule", "parameters": "parameters given", "source": "asked by"},
            title="Rules",
        ),
        table_of(actions, {"rule": "rule", "statuses": "on", "action": "action"}, title="Actions"),
    )
    return Section("configuration", "Configuration", words, (), tuple(each for each in tables if each.rows))


def environment(sources: Sources) -> Section:
    """Versions, nodes and workers."""
    tables = [_versions(sources), _nodes(sources), _workers(sources)]
    shown = tuple(each for each in tables if each.rows)
    return (
        Section("environment", "Environment", (), (), shown)
        if shown
        else empty("environment", "Environment", "neither node nor worker said anything of itself")
    )


def reproduction(sources: Sources) -> Section:
    """How to run it again."""
    manifest = sources.run.manifest
    words = [
        "The same training, watched as it was:",
        f"cd {shlex.quote(manifest.folder or '.')}",
        f"leadline run --config {shlex.quote(sources.run.uri)} -- {shlex.join(manifest.command)}",
        "Secrets in the command are masked (***) and have to be given again; what else a training depends on, "
        "data, seeds and code, is not recorded.",
        f"This report, again: leadline report {shlex.quote(sources.run.uri)}",
    ]
    return Section("reproduce", "How to reproduce", tuple(words))


def _item(item: CaptureItem) -> dict[str, Any]:
    name = item.custom or item.collection or "all"
    when = item.schedule
    parts = [f"every {when.every} steps" if when.every and when.every > 1 else "every step" if when.every else ""]
    parts += [f"every {when.every_seconds:g} s"] if when.every_seconds else []
    parts += [f"at {', '.join(map(str, when.steps))}"] if when.steps else []
    parts += [f"from {when.start}"] if when.start else []
    parts += [f"before {when.end}"] if when.end else []
    statistics = [*item.statistics, *(["the tensors themselves"] if item.raw else [])]
    return {
        "what": f"{name} ~ {item.regex}" if item.regex else name,
        "statistics": ", ".join(statistics),
        "when": ", ".join(filter(None, parts)),
        "modes": ", ".join(item.modes),
        "source": item.source,
    }


def _versions(sources: Sources) -> Table:
    manifest = sources.run.manifest
    rows = [{"name": "leadline", "version": manifest.leadline}]
    rows += [{"name": name, "version": each} for name, each in manifest.versions.items() if name != "leadline"]
    return table_of(rows, {"name": "software", "version": "version"}, title="Versions")


def _nodes(sources: Sources) -> Table:
    rows = []
    for node in liveness.read_nodes(sources.run.path):
        gpus = [str(each.get("name")) for each in node.get("gpus") or ()]
        rows.append(
            {
                "node": node.get("node"),
                "cores": node.get("cpu_count"),
                "memory": _bytes(node),
                "gpus": ", ".join(f"{gpus.count(each)} × {each}" for each in dict.fromkeys(gpus)) or "none",
                "system": node.get("platform") or node.get("system"),
            }
        )
    columns: Columns = {"node": "node", "cores": "cores", "memory": "memory", "gpus": "GPUs", "system": "system"}
    return table_of(rows, columns, title="Nodes")


def _bytes(node: Mapping[str, Any]) -> str | None:
    found = node.get("memory_bytes")
    return size(found) if isinstance(found, int) else None


def _workers(sources: Sources) -> Table:
    rows = []
    for each in sources.said["workers"]:
        models = ", ".join(model(one["name"], one["parameters"]) for one in each["models"] or ())
        notes = "; ".join(each["notes"] or ())
        rows.append({**each, "models": models, "optimizers": ", ".join(each["optimizers"] or ()), "notes": notes})
    columns: Columns = {
        "worker": "worker",
        "node": "node",
        "framework": "framework",
        "models": "model",
        "optimizers": "optimizer",
        "state": "state",
        "notes": "notes",
    }
    return table_of(rows, columns, title="Workers", most=64)


def _spoken(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())
