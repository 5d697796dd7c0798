"""Time breakdown of a run: phases, throughput, resource utilization, ranks and bottleneck."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from leadline.analysis.bottleneck import Bottleneck, find_bottleneck
from leadline.analysis.job import JobPhases, read_job
from leadline.analysis.overload import Overload, find_overload
from leadline.analysis.ranks import Ranks, compare_ranks
from leadline.analysis.steps import StepTable, read_steps
from leadline.analysis.time_document import PhaseTime, ThroughputDocument, TimeDocument, Utilization
from leadline.analysis.trees import framework_of
from leadline.analysis.usage import usage
from leadline.reader import liveness, tables
from leadline.reader.archive import Archive
from leadline.reader.find_runs import read_manifest
from leadline.records.describe import states_of
from leadline.records.documents import NodeDocument, WorkerDocument
from leadline.records.names import COMPUTES_LATER
from leadline.store import layout
from leadline.store.run_state import read_nodes, read_rule_summary, read_status, read_workers

PEAKS: Final = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "A30": 165e12,
    "A10G": 70e12,
    "A10": 125e12,
    "L40S": 362e12,
    "L4": 121e12,
    "V100": 125e12,
    "T4": 65e12,
    "MI300X": 1307e12,
    "MI250X": 383e12,
}
"""Dense peak FLOPs per second in bfloat16 (V100, T4: float16) from the vendors' data sheets, by substring of the device
name; the first match is used."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of the training steps after the first, over all parallel workers.

    Not a number:
        Unknown values are None.
    """

    steps_per_second: float | None
    """Per worker, median over the workers."""
    step_ms: dict[str, float] | None
    """Mean, median and 95th percentile."""
    input_wait_share: float | None
    """The share of the step time spent waiting for data."""
    samples_per_second: float | None
    """Over all workers; requires the batch size."""
    flops_per_second: float | None
    """Per worker; requires the FLOPs per step."""
    mfu: float | None
    """Model FLOPs utilization, relative to the dense 16-bit peak of the device, for any data type."""
    peak_flops_per_second: float | None

    def to_dict(self) -> ThroughputDocument:
        """Return the known values as plain JSON values."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return cast(ThroughputDocument, known)


def read_throughput(steps: StepTable, facts: Mapping[str, Mapping[str, Any]], devices: Mapping[str, str]) -> Throughput:
    """Compute the throughput of a training.

    Args:
        facts: The facts of each worker: ``batch_size``, ``flops_per_step`` …
        devices: The name of each worker's accelerator, if it has one.
    """
    later = steps.only(mode="train").after_first()
    if not len(later):
        return Throughput(None, None, None, None, None, None, None)
    rates = {name: _steps_per_second(later.only(worker=name)) for name in later.workers}
    speeds = {name: rate for name, rate in rates.items() if rate is not None}
    if not speeds:
        return Throughput(None, None, None, None, None, None, None)
    flops, samples = (_rates(speeds, facts, name) for name in ("flops_per_step", "batch_size"))
    speed = float(np.median(flops)) if flops else None
    peaks = {peak_of(devices.get(name, "")) for name in speeds}
    peak = peaks.pop() if len(peaks) == 1 else None
    return Throughput(
        steps_per_second=float(np.median(list(speeds.values()))),
        step_ms=_times(later),
        input_wait_share=later.seconds_by_phase().get("data", 0.0) / later.seconds() if later.seconds() else None,
        samples_per_second=sum(samples) if len(samples) == len(speeds) else None,
        flops_per_second=speed,
        mfu=speed / peak if speed is not None and peak else None,
        peak_flops_per_second=peak,
    )


def peak_of(device: str) -> float | None:
    """Return the peak FLOPs per second of a device by its name; None if unknown."""
    return next((peak for name, peak in PEAKS.items() if name in device), None)


def _steps_per_second(steps: StepTable) -> float | None:
    """Return the steps per second, without the pauses between steps."""
    seconds = steps.seconds()
    return steps.count() / seconds if seconds > 0 else None


def _times(steps: StepTable) -> dict[str, float]:
    order = np.argsort(steps.duration_ns)
    lengths, weights = steps.duration_ns[order] / 1e6, np.cumsum(steps.weight[order])
    median, p95 = (float(lengths[np.searchsorted(weights, share * weights[-1])]) for share in (0.5, 0.95))
    return {"mean": float(np.average(lengths, weights=steps.weight[order])), "median": median, "p95": p95}


def _rates(speeds: Mapping[str, float], facts: Mapping[str, Mapping[str, Any]], name: str) -> list[float]:
    """Multiply the steps per second of each worker by a fact per step, for workers that have it."""
    values = {worker: facts.get(worker, {}).get(name) for worker in speeds}
    return [speeds[worker] * value for worker, value in values.items() if isinstance(value, (int, float)) and value > 0]


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """The time breakdown of a run."""

    job: JobPhases
    steps: StepTable
    throughput: Throughput
    usage: list[Utilization]
    ranks: Ranks | None
    bottleneck: Bottleneck | None
    overload: Overload | None

    def to_dict(self) -> TimeDocument:
        """Return plain JSON values, the ``time`` of ``leadline show --json``."""
        return {
            "job": self.job.to_dict(),
            "steps": {mode: self.steps.only(mode=mode).count() for mode in ("train", "eval", "predict")},
            "phases": phases(self.steps),
            "throughput": self.throughput.to_dict(),
            "usage": self.usage,
            "ranks": self.ranks.to_dict() if self.ranks else None,
            "bound": self.bottleneck.to_dict() if self.bottleneck else None,
            "overload": self.overload.to_dict() if self.overload else None,
        }


def phases(steps: StepTable) -> list[PhaseTime]:
    """Return the time of each phase of the training steps, and of evaluation, with shares, the largest first.

    The first training step, in which much is set up, is left out if others follow, as for the bottleneck.
    """
    train = steps.only(mode="train")
    later = train.after_first()
    sums = dict((later if len(later) else train).seconds_by_phase())
    for mode in ("eval", "predict"):
        seconds = steps.only(mode=mode).seconds()
        if seconds > 0:
            sums[mode] = seconds
    whole = sum(sums.values())
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [{"phase": name, "seconds": seconds, "share": seconds / whole} for name, seconds in ordered]


def time_breakdown(
    run: str, timeline: pa.Table, system: pa.Table, *, ended_ns: int | None, verdicts: Mapping[str, str] | None = None
) -> TimeBreakdown:
    """Return the time breakdown of a run.

    Args:
        run: The run directory.
        timeline, system: As returned by ``Run.timeline`` and ``Run.system_metrics``.
        ended_ns: When it ended; None if it is running.
        verdicts: The state of each rule; None for those in the run's rule summary.
    """
    workers = read_workers(run)
    facts = {name: document.facts for name, document in workers.items()}
    steps = read_steps(timeline)
    ranks = compare_ranks(steps)
    job = read_job(timeline, steps, started_ns=read_manifest(run).started_ns, ended_ns=ended_ns)
    overload = find_overload(steps)
    bottleneck = find_bottleneck(
        steps,
        system,
        ranks,
        rule_states(run) if verdicts is None else verdicts,
        framework=framework_of(run),
        loader=loader_of(run),
        computes_later=any(known.get(COMPUTES_LATER) for known in facts.values()),
    )
    if overload is not None and bottleneck is not None:
        overload = replace(overload, loads_most=False)  # what the training waits for is known
    return TimeBreakdown(
        job,
        steps,
        read_throughput(steps, facts, device_names(facts, read_nodes(run), workers)),
        usage(system),
        ranks,
        bottleneck,
        overload,
    )


def read_time_breakdown(run: str, verdicts: Mapping[str, str] | None = None) -> TimeBreakdown:
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
        verdicts=verdicts,
    )


def loader_of(run: str) -> tuple[int, int] | None:
    """Return the worker processes of the data loader of a worker, and the processors of its node; None: unknown."""
    cores = {node.node: node.cpu_count for node in read_nodes(run)}
    for worker in read_workers(run).values():
        processes, processors = worker.facts.get("dataloader_workers"), cores.get(worker.node or "")
        if isinstance(processes, int) and processors:
            return processes, processors
    return None


def rule_states(run: str) -> dict[str, str]:
    """Return the state of each rule in the run's rule summary, by rule name; of several of a rule the worst."""
    summary = read_rule_summary(run)
    return states_of(summary.rules) if summary is not None else {}


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
