"""What every view says of a run, gathered once as plain values."""

from __future__ import annotations

import os
from typing import Any

from leadline.analysis.time_breakdown import where_time_went
from leadline.reader.run import Run
from leadline.records.finding import Finding
from leadline.records.formatting import iso
from leadline.records.overhead import step_share, throttled
from leadline.store import layout
from leadline.store.actions import read_actions
from leadline.store.documents import read_document, read_lines


def overview(run: Run) -> dict[str, Any]:
    """A run as ``leadline show --json`` gives it."""
    said = run.status_document
    workers = list(run.worker_documents().values())
    manifest = run.manifest
    return {
        "name": run.name,
        "uri": run.uri,
        "status": run.status,
        "stopped_by": said.get("stopped_by"),
        "exit_status": said.get("exit_status"),
        "command": list(manifest.command),
        "preset": manifest.preset,
        "started": iso(manifest.started_ns),
        "ended": iso(said.get("ended_ns")),
        "steps": steps_of(workers),
        "workers": [_worker(each) for each in workers],
        "cost": cost_of(run.uri, workers),
        "lost": [each["lost"] for each in workers if each.get("lost")],
        "damage": list(run.damage),
        "rules": rules_of(run.uri),
        "actions": [_action(each) for each in read_actions(run.uri)],
        "time": time_of(run),
    }


def time_of(run: Run) -> dict[str, Any]:
    """Where the time of a run went: phases, pace, use of the machine, ranks, and what bound it."""
    ended_ns = run.status_document.get("ended_ns")
    return where_time_went(run.uri, run.timeline(), run.system_metrics(), ended_ns=ended_ns).spoken()


def steps_of(workers: list[dict[str, Any]]) -> dict[str, int]:
    """Steps by mode, of the worker that is furthest."""
    steps: dict[str, int] = {}
    for each in workers:
        for mode, count in each.get("steps", {}).items():
            steps[mode] = max(steps.get(mode, 0), count)
    return steps


def cost_of(path: str, workers: list[dict[str, Any]]) -> dict[str, Any]:
    """The share of step time that watching took, the run's bytes on disk, and what was thinned to the budget."""
    size = sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
    return {"step_share": step_share(workers), "bytes": size, "throttled": throttled(workers)}


def rules_of(path: str) -> list[dict[str, Any]]:
    """Each rule with its status, verdict and findings."""
    summary = read_document(os.path.join(path, layout.RULE_SUMMARY)) or {"rules": []}
    return [{**_rule(each), "findings": findings_of(path, each["name"])} for each in summary["rules"]]


def _rule(each: dict[str, Any]) -> dict[str, Any]:
    return {key: each.get(key) for key in ("name", "rule", "status", "verdict", "why", "explained_by")}


def findings_of(path: str, alias: str) -> list[dict[str, Any]]:
    """A rule's episodes, each as it last was."""
    episodes: dict[int, dict[str, Any]] = {}
    for line in read_lines(os.path.join(path, layout.rule_findings(alias))):
        episodes[line["id"]] = format_finding(line)
    return [episodes[each] for each in sorted(episodes)]


def format_finding(given: dict[str, Any] | Finding) -> dict[str, Any]:
    """A finding in the words of ``--json``."""
    keys = (
        "step",
        "last_step",
        "is_open",
        "message",
        "tensors",
        "tensor_count",
        "worker",
        "evidence",
        "suggestion",
        "count",
    )
    return {key: given[key] if isinstance(given, dict) else getattr(given, key) for key in keys}


def _worker(each: dict[str, Any]) -> dict[str, Any]:
    keys = ("worker", "node", "pid", "state", "framework", "models", "optimizers", "step", "lost", "off", "notes")
    return {key: each.get(key) for key in keys}


def _action(each: dict[str, Any]) -> dict[str, Any]:
    keys = ("rule", "action", "state", "outcome", "step", "attempts", "notice")
    return {**{key: each.get(key) for key in keys}, "time": iso(each.get("time_ns"))}
