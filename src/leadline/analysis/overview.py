"""Overview of a run as plain values, for terminal, JSON and reports."""

from __future__ import annotations

import os
from typing import Any

from leadline.analysis.time_breakdown import time_breakdown
from leadline.reader.run import Run
from leadline.records.finding import Finding
from leadline.records.formatting import iso
from leadline.records.overhead import step_share, throttled
from leadline.store import layout
from leadline.store.actions import read_actions
from leadline.store.documents import read_document, read_lines


def overview(run: Run) -> dict[str, Any]:
    """Return the overview of a run, the output of ``leadline show --json``."""
    status = run.status_document
    workers = list(run.worker_documents().values())
    manifest = run.manifest
    return {
        "name": run.name,
        "uri": run.uri,
        "status": run.status,
        "stopped_by": status.get("stopped_by"),
        "exit_status": status.get("exit_status"),
        "command": list(manifest.command),
        "preset": manifest.preset,
        "started": iso(manifest.started_ns),
        "ended": iso(status.get("ended_ns")),
        "steps": steps_of(workers),
        "workers": [_worker(worker) for worker in workers],
        "cost": cost_of(run.uri, workers),
        "lost": [worker["lost"] for worker in workers if worker.get("lost")],
        "damage": list(run.damage),
        "rules": rules_of(run.uri),
        "actions": [_action(action) for action in read_actions(run.uri)],
        "time": time_breakdown_of(run),
    }


def time_breakdown_of(run: Run) -> dict[str, Any]:
    """Return the time breakdown of a run: phases, throughput, resource utilization, ranks and bottleneck."""
    ended_ns = run.status_document.get("ended_ns")
    return time_breakdown(run.uri, run.timeline(), run.system_metrics(), ended_ns=ended_ns).to_dict()


def steps_of(workers: list[dict[str, Any]]) -> dict[str, int]:
    """Return the steps by mode, of the worker with the most steps."""
    steps: dict[str, int] = {}
    for worker in workers:
        for mode, count in worker.get("steps", {}).items():
            steps[mode] = max(steps.get(mode, 0), count)
    return steps


def cost_of(path: str, workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the overhead as a share of step time, the size of the run on disk, and what was throttled."""
    size = sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
    return {"step_share": step_share(workers), "bytes": size, "thinned": throttled(workers)}


def rules_of(path: str) -> list[dict[str, Any]]:
    """Return each rule with its status, verdict and findings."""
    summary = read_document(os.path.join(path, layout.RULE_SUMMARY)) or {"rules": []}
    return [{**_rule(rule), "findings": findings_of(path, rule["name"])} for rule in summary["rules"]]


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    return {key: rule.get(key) for key in ("name", "rule", "status", "verdict", "why", "explained_by")}


def findings_of(path: str, alias: str) -> list[dict[str, Any]]:
    """Return the findings of a rule, in their latest version."""
    findings: dict[int, dict[str, Any]] = {}
    for line in read_lines(os.path.join(path, layout.rule_findings(alias))):
        findings[line["id"]] = format_finding(line)
    return [findings[finding_id] for finding_id in sorted(findings)]


def format_finding(finding: dict[str, Any] | Finding) -> dict[str, Any]:
    """Return a finding in the form of ``--json``."""
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
    return {key: finding[key] if isinstance(finding, dict) else getattr(finding, key) for key in keys}


def _worker(document: dict[str, Any]) -> dict[str, Any]:
    keys = ("worker", "node", "pid", "state", "framework", "models", "optimizers", "step", "lost", "off", "notes")
    return {key: document.get(key) for key in keys}


def _action(action: dict[str, Any]) -> dict[str, Any]:
    keys = ("rule", "action", "state", "outcome", "step", "attempts", "notice")
    return {**{key: action.get(key) for key in keys}, "time": iso(action.get("time_ns"))}
