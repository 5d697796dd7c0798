"""Bottleneck of a run: input, compute, communication, host or memory, with evidence and a suggestion."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.overload import find_overload, without_run_delay
from leadline.analysis.ranks import Ranks, SlowRank
from leadline.analysis.steps import StepTable
from leadline.analysis.suggestions import (
    COMMUNICATION,
    COMPUTE,
    HOST,
    INPUT,
    MEMORY,
    OVERLOADED,
    SCORING,
    suggestions,
)
from leadline.analysis.trees import FRAMEWORKS as TREES
from leadline.analysis.usage import mean_of, usage_by_phase
from leadline.records.formatting import phase_label, significant
from leadline.records.names import OTHER, OVERHEAD, PARTS

_BOTTLENECK_SHARE: Final = 0.3
"""A phase with at least this share of the step time is the bottleneck."""
_LEAST_SECONDS: Final = 0.002
"""A phase other than computing that takes less time per step is no bottleneck: such steps are Python calls."""
_FULL_PERCENT: Final = 95.0
_IDLE_PERCENT: Final = 50.0
_COMPUTING: Final = ("forward", "backward", "optimizer")
_WAITING_SHARE: Final = 0.2
"""A phase in which the training's thread uses a processor, or is ready to, for less than this share of the time is
waiting."""
_LONG_FACTOR: Final = 3.0
"""Steps longer than this many medians are long."""
_MIN_STEPS: Final = 5

Evidence = dict[str, Any]
"""Numbers that a bottleneck follows from, by name."""
Tries = Mapping[str, str]
"""What to try first; see ``suggestions``."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The bottleneck of a run."""

    kind: str
    """``input``, ``compute``, ``communication``, ``host`` or ``memory``."""
    phase: str
    """The phase that is affected most."""
    message: str
    """One line, with the numbers."""
    suggestion: str
    """The first thing to try."""
    evidence: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        document = asdict(self)
        document["try"] = document.pop("suggestion")
        return document

    def summary(self) -> dict[str, str]:
        """Return plain JSON values without the evidence."""
        return {"kind": self.kind, "phase": self.phase, "message": self.message, "try": self.suggestion}


def find_bottleneck(
    steps: StepTable,
    system: pa.Table,
    ranks: Ranks | None,
    fired: Collection[str] = (),
    *,
    framework: str = "",
) -> Bottleneck | None:
    """Find the bottleneck of the training steps of a run.

    Checked in this order: memory (it grows steadily, or is full); a straggling rank; the largest of waiting for data,
    the host's work before the model is called, collectives, checkpoints, Leadline itself and time between the phases,
    if it is at least 30 % of the step time, and 2 ms; a compute phase of that size in which the training's thread
    waits; a GPU that is idle for more than half of the compute phases, which means that the host is too slow; compute,
    if it is at least 30 % of the step time. Time before ``backward`` counts as compute only where the call of the model
    was observed, or a data loader delivers the batches. On an overloaded machine, the time for which the thread waits
    for a processor counts nowhere: the bottleneck is that of the same training on an idle machine.

    Args:
        fired: The rules with findings.
        framework: What trains, which changes the suggestions: ``tensorflow 2.21``, …; empty: PyTorch.
    Returns:
        The bottleneck; None if too few steps were timed, or if what takes the most time was not measured. Compute is
        no bottleneck where the rule ``input_bound`` has found that parts of the run wait for data.
    """
    later = steps.only(mode="train").after_first()
    if later.count() < _MIN_STEPS:
        return None
    tries, is_boosted_run = suggestions(framework), framework.startswith(TREES)
    seconds, ready, overload = later.seconds_by_phase(), later.ready_shares(), find_overload(steps)
    whole, evidence = later.seconds(), _long_steps(later)
    recorded = {name: total / whole for name, total in seconds.items()}
    if overload is not None and ready:
        left, ready = without_run_delay(seconds, ready, overload)
        whole, seconds = whole - sum(seconds.values()) + sum(left.values()), left
        evidence["overload"] = overload.to_dict()
    shares = {name: total / whole for name, total in seconds.items()}
    evidence |= {"shares": shares, "shares_with_waits": recorded, "cpu_shares": ready}
    bottleneck = (
        _memory(system, fired, evidence, tries)
        or (_waiting(ranks.straggler, evidence, tries) if ranks is not None and ranks.straggler is not None else None)
        or _largest(shares, evidence, whole / later.count(), tries)
        or _blocked(shares, evidence, tries)
        or _idle_gpu(system, later, evidence, tries)
        or (_computing(shares, evidence, tries) if is_boosted_run or _is_forward_known(later, shares) else None)
    )
    if bottleneck is not None and bottleneck.kind == COMPUTE and "input_bound" in fired:
        return None
    if bottleneck is not None and bottleneck.kind in (INPUT, HOST) and overload is not None:
        bottleneck = replace(bottleneck, suggestion=f"{OVERLOADED}; then {bottleneck.suggestion}")
    return _with_scoring(bottleneck, shares) if bottleneck is not None and is_boosted_run else bottleneck


def _with_scoring(bottleneck: Bottleneck, shares: dict[str, float]) -> Bottleneck:
    """Return a bottleneck of boosted trees, whose forward phase is the scoring of evaluation sets."""
    scoring = shares.get("forward", 0.0)
    if bottleneck.kind == COMPUTE and bottleneck.phase == "forward" and scoring >= _BOTTLENECK_SHARE:
        message = (
            f"{_percent(bottleneck.evidence, 'forward', of='the time of a round')} is spent scoring the evaluation sets"
        )
        return replace(bottleneck, message=message, suggestion=SCORING)
    return bottleneck


def _memory(system: pa.Table, fired: Collection[str], evidence: Evidence, tries: Tries) -> Bottleneck | None:
    samples = system.filter(pc.and_(pc.equal(system["kind"], "memory"), pc.equal(system["metric"], "used_percent")))
    p95 = float(np.percentile(samples["value"].to_numpy(), 95)) if samples.num_rows else None
    evidence = {**evidence, "memory_percent_p95": p95}
    if "memory_growth" in fired:
        return Bottleneck(MEMORY, "", "job memory (RSS) keeps growing", tries[MEMORY], evidence)
    if p95 is None or p95 <= _FULL_PERCENT:
        return None
    message = f"system memory is full: {p95:.0f} % (95th percentile)"
    return Bottleneck(MEMORY, "", message, tries[MEMORY], evidence)


def _waiting(straggler: SlowRank, evidence: Evidence, tries: Tries) -> Bottleneck:
    return Bottleneck(
        COMMUNICATION,
        straggler.phase,
        f"other ranks wait for rank {straggler.rank}: {significant(straggler.lost_ms)} ms lost per "
        f"step in {phase_label(straggler.phase)}",
        tries[INPUT] + f" (on rank {straggler.rank})" if straggler.phase == "data" else tries["straggler"],
        {**evidence, "straggler": asdict(straggler)},
    )


def _largest(shares: dict[str, float], evidence: Evidence, step_seconds: float, tries: Tries) -> Bottleneck | None:
    is_wait = evidence["cpu_shares"].get("host", 1.0) < _WAITING_SHARE
    candidates = {
        "host": (INPUT, "a wait of the script before it calls the model: for its data, most likely", tries["host wait"])
        if is_wait
        else (HOST, "the script's own work before it calls the model: loading data or other host work", tries["host"]),
        OVERHEAD: (HOST, "Leadline's overhead", tries[OVERHEAD]),
        "data": (INPUT, "waiting for data", tries[INPUT]),
        "collective": (COMMUNICATION, "collectives between ranks", tries[COMMUNICATION]),
        "copy": (HOST, "copying to the device", tries["copy"]),
        "checkpoint": (HOST, "saving checkpoints", tries["checkpoint"]),
        OTHER: (HOST, "spent on the host between the phases", tries[OTHER]),
    }
    name = max(candidates, key=lambda phase: shares.get(phase, 0.0))
    share = shares.get(name, 0.0)
    if share < _BOTTLENECK_SHARE or share * step_seconds < _LEAST_SECONDS:
        return None
    kind, description, suggestion = candidates[name]
    message = f"{_percent(evidence, name)} is {description}{_format_long_steps(evidence, name)}"
    return Bottleneck(kind, name, message, suggestion, evidence)


def _blocked(shares: dict[str, float], evidence: Evidence, tries: Tries) -> Bottleneck | None:
    """Return a compute phase in which the training's thread waits instead of computing."""
    phase = max(_COMPUTING, key=lambda name: shares.get(name, 0.0))
    ready_share = evidence["cpu_shares"].get(phase, 1.0)
    if shares.get(phase, 0.0) < _BOTTLENECK_SHARE or ready_share >= _WAITING_SHARE:
        return None
    message = (
        f"{_percent(evidence, phase)} is {phase}, of which the training's thread waits {100 * (1 - ready_share):.0f} %"
    )
    return Bottleneck(HOST, phase, message, tries["blocked"], evidence)


def _is_forward_known(steps: StepTable, shares: dict[str, float]) -> bool:
    """Return whether the time before ``backward`` is known to be the forward pass, or is small."""
    forward, host = (steps.phases[:, PARTS.index(name)] * steps.weight for name in ("forward", "host"))
    unknown = float(forward[host == 0].sum()) / 1e9 / steps.seconds() if steps.seconds() > 0 else 0.0
    return unknown < _BOTTLENECK_SHARE or shares.get("data", 0.0) > 0


def _idle_gpu(system: pa.Table, steps: StepTable, evidence: Evidence, tries: Tries) -> Bottleneck | None:
    if mean_of(system, "gpu", "utilization_percent") is None:
        return None
    by_phase = usage_by_phase(system, steps, "gpu", "utilization_percent")
    percents = [by_phase[name] for name in _COMPUTING if name in by_phase]
    mean = sum(percents) / len(percents) if percents else None
    if mean is None or mean >= _IDLE_PERCENT:
        return None
    message = f"GPU utilization is {mean:.0f} % during compute phases: the host cannot keep the GPU busy"
    return Bottleneck(HOST, "forward", message, tries["idle"], {**evidence, "gpu_percent_by_phase": by_phase})


def _computing(shares: dict[str, float], evidence: Evidence, tries: Tries) -> Bottleneck | None:
    phase = max(_COMPUTING, key=lambda name: shares.get(name, 0.0))
    whole = sum(shares.get(name, 0.0) for name in _COMPUTING)
    if whole < _BOTTLENECK_SHARE:
        return None
    message = f"{_percent(evidence, *_COMPUTING)} is compute, most of it {phase}"
    return Bottleneck(COMPUTE, phase, message, tries[COMPUTE], evidence)


def _percent(evidence: Mapping[str, Any], *phases: str, of: str = "the step time") -> str:
    """``21 % of the step time``, on an overloaded machine ``21 % of the step time (49 % without waits for a CPU)``."""
    whole, idle = (
        100 * sum(evidence[name].get(phase, 0.0) for phase in phases) for name in ("shares_with_waits", "shares")
    )
    without = f" ({idle:.0f} % without waits for a CPU)" if "overload" in evidence else ""
    return f"{whole:.0f} % of {of}{without}"


def _long_steps(steps: StepTable) -> dict[str, Any]:
    """Return how much time long steps take beyond the median, if it is significant."""
    median = float(np.median(steps.duration_ns))
    is_long = steps.duration_ns > _LONG_FACTOR * median
    excess = float(((steps.duration_ns - median) * steps.weight)[is_long].sum()) / 1e9
    share = excess / steps.seconds() if steps.seconds() > 0 else 0.0
    if share < 0.1:
        return {}
    count = int(steps.weight[is_long].sum())
    return {"long_steps": {"count": count, "of": steps.count(), "excess_share": share}}


def _format_long_steps(evidence: dict[str, Any], phase: str) -> str:
    long = evidence.get("long_steps")
    if not long or long["excess_share"] < evidence["shares"][phase] / 2:
        return ""
    return f", most of it in {long['count']:,} of {long['of']:,} steps"
