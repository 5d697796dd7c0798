"""Overview of a run as plain values, for terminal, JSON and reports."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import cast

from leadline.analysis.overview_document import (
    ActionOverview,
    CheckpointDocument,
    CostDocument,
    FindingDocument,
    RuleOverview,
    RunOverview,
    StartCost,
    WorkerOverview,
)
from leadline.analysis.resumed import interruptions_with_changes
from leadline.analysis.time_breakdown import time_breakdown
from leadline.analysis.time_document import TimeDocument
from leadline.reader.run import Run
from leadline.reader.tables import is_finding
from leadline.records.documents import LoggedAction, RuleSummary, WorkerDocument
from leadline.records.finding import Finding
from leadline.records.formatting import iso
from leadline.records.json_object import JsonObject
from leadline.records.opposite_advice import StandingAdvice
from leadline.records.outcome import RunOutcome, run_outcome
from leadline.records.totals import (
    beside_seconds,
    compile_seconds,
    cost_table,
    own_seconds,
    sampled,
    start_and_rest,
    step_share,
    steps_by_mode,
    trainings,
)
from leadline.records.trainer_facts import checkpoint_to_keep, planned_steps
from leadline.remote import mirror
from leadline.store import layout
from leadline.store.control import read_actions
from leadline.store.disk_limit import read_disk_limit
from leadline.store.documents import read_lines, to_json
from leadline.store.run_state import read_nodes, read_rule_summary, recorded_bytes
from leadline.store.upload_state import read_upload


def overview(run: Run) -> RunOverview:
    """Return the overview of a run, the output of ``leadline show --json``."""
    status = run.status_document
    workers = list(run.worker_documents().values())
    manifest, outcome = run.manifest, outcome_of(run)
    checkpoint = checkpoint_to_keep(workers, outcome.findings_ranked)
    return {
        "name": run.name,
        "uri": mirror.uri_of(run.path) or run.uri,
        "upload": upload_of(run),
        "removed": read_disk_limit(run.path).describe() or None,
        "status": run.status,
        "status_note": run.status_note,
        "outcome": outcome.to_dict(),
        "stopped_by": status.stopped_by,
        "exit_status": status.exit_status,
        "command": list(manifest.command),
        "preset": manifest.preset,
        "started": iso(manifest.started_ns),
        "ended": iso(status.ended_ns),
        "interruptions": [to_json(interruption) for interruption in interruptions_with_changes(run)],
        "steps": steps_by_mode(workers),
        "planned_steps": planned_steps(workers),
        "trainings": list(trainings(workers)),
        "checkpoint": cast(CheckpointDocument, asdict(checkpoint)) if checkpoint is not None else None,
        "workers": [_worker(worker) for worker in workers],
        "cost": cost_of(run.uri, workers),
        "lost": [to_json(worker.lost) for worker in workers if worker.lost is not None],
        "damage": list(run.damage),
        "rules": rules_of(run.uri, outcome),
        "actions": [_action(action) for action in read_actions(run.uri)],
        "time": time_breakdown_of(run),
    }


def outcome_of(run: Run) -> RunOutcome:
    """Return the outcome of a run, from its documents."""
    status = replace(run.status_document, status=run.status)
    return run_outcome(status, read_rule_summary(run.path) or RuleSummary(), run.worker_documents().values())


def time_breakdown_of(run: Run) -> TimeDocument:
    """Return the time breakdown of a run: phases, throughput, resource utilization, ranks and bottleneck."""
    ended_ns = run.status_document.ended_ns
    return time_breakdown(run.uri, run.timeline(), run.system_metrics(), ended_ns=ended_ns).to_dict()


def cost_of(path: str, workers: Sequence[WorkerDocument]) -> CostDocument:
    """Return the overhead as time and share of step time, its size on disk, and what was sampled less often."""
    split = start_and_rest(workers)
    return {
        "seconds": own_seconds(workers),
        "step_share": step_share(workers),
        "start": cast(StartCost, asdict(split)) if split is not None else None,
        "compile_seconds": compile_seconds(workers),
        "beside_seconds": beside_seconds(read_nodes(path), read_rule_summary(path) or RuleSummary()),
        "captures": to_json(table.captures) if (table := cost_table(workers)) is not None else [],
        "bytes": recorded_bytes(path),
        "sampled": to_json(sampled(workers)),
    }


def rules_of(path: str, outcome: RunOutcome) -> list[RuleOverview]:
    """Return each rule with its status, verdict and findings; the rules that fired come first, ranked."""
    ranks = {rule.name: rank for rank, rule in enumerate(outcome.findings_ranked)}
    summary = read_rule_summary(path) or RuleSummary()
    rules = sorted(summary.rules, key=lambda rule: ranks.get(rule.name, len(ranks)))
    standing = StandingAdvice.of(outcome.findings_ranked)
    return [
        {
            "name": rule.name,
            "rule": rule.rule,
            "status": rule.status,
            "verdict": rule.verdict,
            "why": rule.why,
            "sampling": rule.sampling,
            "severity": rule.severity,
            "explained_by": rule.explained_by,
            "findings": _agreeing(path, rule.name, standing),
        }
        for rule in rules
    ]


def _agreeing(path: str, alias: str, standing: StandingAdvice) -> list[FindingDocument]:
    """Return the findings of a rule, without advice that contradicts that of a severer finding."""
    return [
        {**finding, "suggestion": standing.agreeing(finding["suggestion"] or "")}
        for finding in findings_of(path, alias)
    ]


def findings_of(path: str, alias: str) -> list[FindingDocument]:
    """Return the findings of a rule, in their latest version."""
    findings: dict[int, FindingDocument] = {}
    lines = read_lines(os.path.join(path, layout.rule_findings(alias))) if layout.is_file_name(alias) else ()
    for line in filter(is_finding, lines):
        findings[line["id"]] = format_finding(line)
    return [findings[finding_id] for finding_id in sorted(findings)]


def format_finding(finding: JsonObject | Finding) -> FindingDocument:
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
    chosen = {key: finding.get(key) if isinstance(finding, dict) else getattr(finding, key) for key in keys}
    return cast(FindingDocument, chosen)


def upload_of(run: Run) -> str | None:
    """Return how far the upload of a run is, or why its mirror is not up to date; None for other local runs."""
    state = read_upload(run.path)
    return state.describe(time.time_ns()) if state.uri else mirror.last_error(run.path) or None


def _worker(worker: WorkerDocument) -> WorkerOverview:
    return {
        "worker": worker.worker,
        "node": worker.node,
        "pid": worker.pid,
        "state": worker.state,
        "framework": worker.framework,
        "models": to_json(worker.models),
        "optimizers": list(worker.optimizers),
        "step": worker.step,
        "lost": to_json(worker.lost),
        "off": to_json(worker.off),
        "notes": list(worker.notes),
    }


def _action(action: LoggedAction) -> ActionOverview:
    return {
        "rule": action.rule,
        "action": action.action,
        "state": action.state,
        "outcome": action.outcome,
        "step": action.step,
        "attempts": action.attempts,
        "notice": action.notice,
        "time": iso(action.time_ns),
    }
