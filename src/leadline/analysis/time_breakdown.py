"""Where the time of a run went: all that its timeline and its machine tell, gathered once as plain values."""

from __future__ import annotations

import os
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
from leadline.store import layout
from leadline.store.documents import read_document


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """Where the time of a run went."""

    job: JobPhases
    steps: StepTable
    throughput: Throughput
    usage: list[dict[str, Any]]
    ranks: Ranks | None
    bound: Bottleneck | None

    def spoken(self) -> dict[str, Any]:
        """As ``leadline show --json`` has it under ``time``."""
        return {
            "job": self.job.spoken(),
            "steps": {mode: self.steps.only(mode=mode).count() for mode in ("train", "eval", "predict")},
            "phases": phases(self.steps),
            "throughput": self.throughput.spoken(),
            "usage": self.usage,
            "ranks": self.ranks.spoken() if self.ranks else None,
            "bound": self.bound.spoken() if self.bound else None,
        }


def phases(steps: StepTable) -> list[dict[str, Any]]:
    """The time of each phase of the training steps, and of evaluation, the largest first; shares of all of it."""
    sums = dict(steps.only(mode="train").seconds_by_phase())
    for mode in ("eval", "predict"):
        seconds = steps.only(mode=mode).seconds()
        if seconds > 0:
            sums[mode] = seconds
    whole = sum(sums.values())
    ordered = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
    return [{"phase": name, "seconds": each, "share": each / whole} for name, each in ordered]


def where_time_went(
    run: str, timeline: pa.Table, system: pa.Table, *, ended_ns: int | None, fired: Collection[str] | None = None
) -> TimeBreakdown:
    """Where the time of a run went.

    Args:
        run: Its folder.
        timeline, system: As ``Run.timeline`` and ``Run.system_metrics`` give them.
        ended_ns: When it ended; None: it goes on.
        fired: The rules that found something; None: those that the run's own summary names.
    """
    workers = liveness.read_workers(run)
    facts = {name: dict(each.get("facts") or {}) for name, each in workers.items()}
    steps = read_steps(timeline)
    ranks = compare_ranks(steps)
    job = read_job(timeline, steps, started_ns=read_manifest(run).started_ns, ended_ns=ended_ns)
    return TimeBreakdown(
        job,
        steps,
        read_throughput(steps, facts, device_names(facts, liveness.read_nodes(run), workers)),
        usage(system),
        ranks,
        find_bottleneck(
            steps, system, ranks, fired_rules(run) if fired is None else fired, is_of_trees=trains_trees(run)
        ),
    )


def read_time(run: str, fired: Collection[str] | None = None) -> TimeBreakdown:
    """The same, of a run of which only what it needs is read: no tensors, no statistics."""
    archive = Archive(run, (layout.TIMELINE, layout.SYSTEM))
    is_over = liveness.is_over(run)
    archive.refresh(is_over=is_over, gone=liveness.finished_workers(run, liveness.read_workers(run)))
    ended = liveness.read_status(run).get("ended_ns")
    return where_time_went(
        run,
        tables.timeline(archive.timeline),
        tables.system_metrics(archive.system),
        ended_ns=ended if isinstance(ended, int) else None,
        fired=fired,
    )


def fired_rules(run: str) -> Collection[str]:
    """The rules that found something, by their own names."""
    summary = read_document(os.path.join(run, layout.RULE_SUMMARY))
    rules = summary.get("rules", ()) if isinstance(summary, dict) else ()
    return {str(each["rule"]) for each in rules if each.get("findings")}


def device_names(
    facts: Mapping[str, Mapping[str, Any]],
    nodes: Collection[Mapping[str, Any]],
    workers: Mapping[str, Mapping[str, Any]],
) -> dict[str, str]:
    """The name of each worker's accelerator, as it says itself, or as its node does where all GPUs are alike."""
    of_node = {
        str(node.get("node")): {str(each["name"]) for each in node.get("gpus", ()) if each.get("name")}
        for node in nodes
    }
    found = {}
    for worker, said in facts.items():
        names = of_node.get(str(workers[worker].get("node")), set())
        device = str(said.get("device_name") or "")
        is_on_gpu = str(said.get("device") or "").startswith("cuda")
        found[worker] = device or (next(iter(names)) if is_on_gpu and len(names) == 1 else "")
    return found
