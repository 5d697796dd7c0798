"""Time breakdown of a run: phases, throughput, resource utilization, ranks and bottleneck."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from leadline.analysis.bottleneck import Bottleneck, find_bottleneck
from leadline.analysis.job import JobPhases, read_job
from leadline.analysis.ranks import Ranks, compare_ranks
from leadline.analysis.steps import StepTable, read_steps
from leadline.analysis.throughput import Throughput, read_throughput
from leadline.analysis.trees import trains_trees
from leadline.analysis.usage import usage
from leadline.reader import liveness, tables
from leadline.reader.archive import Archive
from leadline.reader.find_runs import read_manifest
from leadline.records.documents import NodeDocument, WorkerDocument
from leadline.store import layout
from leadline.store.run_state import read_nodes, read_rule_summary, read_status, read_workers


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """The time breakdown of a run."""

    job: JobPhases
    steps: StepTable
    throughput: Throughput
    usage: list[dict[str, Any]]
    ranks: Ranks | None
    bottleneck: Bottleneck | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, the ``time`` of ``leadline show --json``."""
        return {
            "job": self.job.to_dict(),
            "steps": {mode: self.steps.only(mode=mode).count() for mode in ("train", "eval", "predict")},
            "phases": phases(self.steps),
            "throughput": self.throughput.to_dict(),
            "usage": self.usage,
            "ranks": self.ranks.to_dict() if self.ranks else None,
            "bound": self.bottleneck.to_dict() if self.bottleneck else None,
        }


def phases(steps: StepTable) -> list[dict[str, Any]]:
    """Return the time of each phase of the training steps, and of evaluation, with shares, the largest first."""
    sums = dict(steps.only(mode="train").seconds_by_phase())
    for mode in ("eval", "predict"):
        seconds = steps.only(mode=mode).seconds()
        if seconds > 0:
            sums[mode] = seconds
    whole = sum(sums.values())
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [{"phase": name, "seconds": seconds, "share": seconds / whole} for name, seconds in ordered]


def time_breakdown(
    run: str, timeline: pa.Table, system: pa.Table, *, ended_ns: int | None, fired: Collection[str] | None = None
) -> TimeBreakdown:
    """Return the time breakdown of a run.

    Args:
        run: The run directory.
        timeline, system: As returned by ``Run.timeline`` and ``Run.system_metrics``.
        ended_ns: When it ended; None if it is running.
        fired: The rules with findings; None for those in the run's rule summary.
    """
    workers = read_workers(run)
    facts = {name: document.facts for name, document in workers.items()}
    steps = read_steps(timeline)
    ranks = compare_ranks(steps)
    job = read_job(timeline, steps, started_ns=read_manifest(run).started_ns, ended_ns=ended_ns)
    return TimeBreakdown(
        job,
        steps,
        read_throughput(steps, facts, device_names(facts, read_nodes(run), workers)),
        usage(system),
        ranks,
        find_bottleneck(
            steps, system, ranks, fired_rules(run) if fired is None else fired, is_boosted_run=trains_trees(run)
        ),
    )


def read_time_breakdown(run: str, fired: Collection[str] | None = None) -> TimeBreakdown:
    """Return the time breakdown of a run, reading only what it requires: no tensors, no statistics."""
    archive = Archive(run, (layout.TIMELINE, layout.SYSTEM))
    is_over = liveness.is_over(run)
    archive.refresh(is_over=is_over, gone=liveness.finished_workers(run, read_workers(run)))
    ended_ns = read_status(run).ended_ns
    return time_breakdown(
        run,
        tables.timeline(archive.timeline),
        tables.system_metrics(archive.system),
        ended_ns=ended_ns,
        fired=fired,
    )


def fired_rules(run: str) -> Collection[str]:
    """Return the rules with findings, by rule name."""
    summary = read_rule_summary(run)
    return {rule.rule for rule in summary.rules if rule.findings} if summary is not None else set()


def device_names(
    facts: Mapping[str, Mapping[str, Any]],
    nodes: Collection[NodeDocument],
    workers: Mapping[str, WorkerDocument],
) -> dict[str, str]:
    """Return the name of each worker's accelerator, from the worker or, if all GPUs of its node are equal, the node."""
    of_node = {node.node: {str(gpu["name"]) for gpu in node.gpus if gpu.get("name")} for node in nodes}
    devices = {}
    for worker, worker_facts in facts.items():
        names = of_node.get(workers[worker].node or "", set())
        device = str(worker_facts.get("device_name") or "")
        is_on_gpu = str(worker_facts.get("device") or "").startswith("cuda")
        devices[worker] = device or (next(iter(names)) if is_on_gpu and len(names) == 1 else "")
    return devices
