"""What bound a run: its input, computing, communication, the host or memory; why we think so, and what to try first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.ranks import Ranks, SlowRank
from leadline.analysis.steps import OTHER, StepTable
from leadline.analysis.usage import mean_of, usage_by_phase

INPUT, COMPUTE, COMMUNICATION, HOST, MEMORY = "input", "compute", "communication", "host", "memory"
_MUCH: Final = 0.3
"""The share of the step time from which on it is what bounds."""
_FULL_PERCENT: Final = 95.0
_IDLE_PERCENT: Final = 50.0
_COMPUTING: Final = ("forward", "backward", "optimizer")
_LONG: Final = 3.0
"""Steps of so many medians are long."""
_LEAST_STEPS: Final = 5

_TRY: Final = {
    INPUT: "more num_workers and persistent_workers=True in the DataLoader, then cheaper or cached preprocessing",
    COMMUNICATION: "gradient accumulation with no_sync(), larger buckets (bucket_cap_mb) or fewer, larger collectives",
    COMPUTE: "mixed precision (torch.autocast) and torch.compile, then a larger batch or a faster device",
    MEMORY: "float() or detach() what is kept from step to step, then a smaller batch or activation checkpointing",
    "straggler": "what is different on that rank: its node, device, data and what only it does",
    "checkpoint": "saving less often, or asynchronously (torch.distributed.checkpoint.async_save)",
    OTHER: "py-spy or leadline profile on what the loop does between its phases: logging, .item(), metrics, Python",
    "idle": "torch.compile or CUDA graphs, a larger batch, and no .item() in the loop: the GPU waits for Python",
}


_TRY_OF_TREES: Final = {
    COMPUTE: "all cores (nthread) or a GPU (device='cuda'), then a smaller max_bin or max_depth, or subsample below 1",
    HOST: "cheaper or rarer metrics and callbacks of one's own: they run after each round",
}
"""What helps where boosted trees train; the rest is the same."""
_TRY_SCORING: Final = "fewer, smaller evaluation sets or fewer metrics: all of them are scored after each round"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What bound a run."""

    kind: str
    """``input``, ``compute``, ``communication``, ``host`` or ``memory``."""
    phase: str
    """In which it shows."""
    message: str
    """One line, with the numbers."""
    suggestion: str
    """The first thing to try."""
    evidence: dict[str, Any]

    def spoken(self) -> dict[str, Any]:
        """As plain JSON values."""
        found = asdict(self)
        found["try"] = found.pop("suggestion")
        return found

    def brief(self) -> dict[str, str]:
        """The same without the evidence."""
        return {"kind": self.kind, "phase": self.phase, "message": self.message, "try": self.suggestion}


def find_bottleneck(
    steps: StepTable, system: pa.Table, ranks: Ranks | None, fired: Collection[str] = (), *, is_of_trees: bool = False
) -> Bottleneck | None:
    """What bound the training steps of a run.

    In this order: memory (it grew without end, or the machine's is full), a rank that makes the others wait, then the
    largest of waiting for data, collectives, checkpoints and what is between the phases if it is 30 % of the step time
    or more; a GPU that is idle more than half of the computing phases means that the host is too slow for it; else it
    is computing.

    Args:
        fired: The rules that found something.
        is_of_trees: Whether boosted trees train, and no network; what to try is another then.
    Returns:
        None: too few steps were timed.
    """
    train = steps.only(mode="train")
    later = train.where(train.step > train.step.min()) if len(train) else train
    if later.count() < _LEAST_STEPS:
        return None
    shares = {name: each / later.seconds() for name, each in later.seconds_by_phase().items()}
    evidence = {"shares": shares, **_long_steps(later)}
    found = (
        _memory(system, fired, evidence)
        or (_waiting(ranks.straggler, evidence) if ranks is not None and ranks.straggler is not None else None)
        or _largest(shares, evidence)
        or _idle_gpu(system, later, evidence)
        or _computing(shares, evidence)
    )
    return _of_trees(found, shares) if is_of_trees else found


def _of_trees(found: Bottleneck, shares: dict[str, float]) -> Bottleneck:
    """The same said of rounds: what networks do forward is scoring there."""
    scoring = shares.get("forward", 0.0)
    if found.kind == COMPUTE and found.phase == "forward" and scoring >= _MUCH:
        message = f"{100 * scoring:.0f} % of the time of a round is scoring the evaluation sets"
        return replace(found, message=message, suggestion=_TRY_SCORING)
    return replace(found, suggestion=_TRY_OF_TREES.get(found.kind, found.suggestion))


def _memory(system: pa.Table, fired: Collection[str], evidence: dict[str, Any]) -> Bottleneck | None:
    found = system.filter(pc.and_(pc.equal(system["kind"], "memory"), pc.equal(system["metric"], "used_percent")))
    p95 = float(np.percentile(found["value"].to_numpy(), 95)) if found.num_rows else None
    evidence = {**evidence, "memory_percent_p95": p95}
    if "memory_growth" in fired:
        return Bottleneck(MEMORY, "", "the job's memory grows from step to step", _TRY[MEMORY], evidence)
    if p95 is None or p95 <= _FULL_PERCENT:
        return None
    message = f"the machine's memory is full: {p95:.0f} % (95th percentile)"
    return Bottleneck(MEMORY, "", message, _TRY[MEMORY], evidence)


def _waiting(straggler: SlowRank, evidence: dict[str, Any]) -> Bottleneck:
    return Bottleneck(
        COMMUNICATION,
        straggler.phase,
        f"the ranks wait for rank {straggler.rank}, which loses {straggler.lost_ms:.3g} ms a step in {straggler.phase}",
        _TRY[INPUT] + f" (on rank {straggler.rank})" if straggler.phase == "data" else _TRY["straggler"],
        {**evidence, "straggler": asdict(straggler)},
    )


def _largest(shares: dict[str, float], evidence: dict[str, Any]) -> Bottleneck | None:
    said = {
        "data": (INPUT, "waiting for data", _TRY[INPUT]),
        "collective": (COMMUNICATION, "collectives between ranks", _TRY[COMMUNICATION]),
        "copy": (HOST, "copying to the device", "pin_memory=True and .to(device, non_blocking=True)"),
        "checkpoint": (HOST, "saving checkpoints", _TRY["checkpoint"]),
        OTHER: (HOST, "the host's, between the phases", _TRY[OTHER]),
    }
    name = max(said, key=lambda each: shares.get(each, 0.0))
    if shares.get(name, 0.0) < _MUCH:
        return None
    kind, words, suggestion = said[name]
    message = f"{100 * shares[name]:.0f} % of the step time is {words}{_spoken_long(evidence, name)}"
    return Bottleneck(kind, name, message, suggestion, evidence)


def _idle_gpu(system: pa.Table, steps: StepTable, evidence: dict[str, Any]) -> Bottleneck | None:
    if mean_of(system, "gpu", "utilization_percent") is None:
        return None
    by_phase = usage_by_phase(system, steps, "gpu", "utilization_percent")
    used = [by_phase[name] for name in _COMPUTING if name in by_phase]
    mean = sum(used) / len(used) if used else None
    if mean is None or mean >= _IDLE_PERCENT:
        return None
    message = f"the GPU is used to {mean:.0f} % while the training computes: the host cannot keep it busy"
    return Bottleneck(HOST, "forward", message, _TRY["idle"], {**evidence, "gpu_percent_by_phase": by_phase})


def _computing(shares: dict[str, float], evidence: dict[str, Any]) -> Bottleneck:
    phase = max(_COMPUTING, key=lambda each: shares.get(each, 0.0))
    whole = sum(shares.get(each, 0.0) for each in _COMPUTING)
    message = f"{100 * whole:.0f} % of the step time is computing, most of it {phase}"
    return Bottleneck(COMPUTE, phase, message, _TRY[COMPUTE], evidence)


def _long_steps(steps: StepTable) -> dict[str, Any]:
    """How much of the time the long steps take beyond the median, if that is worth telling."""
    median = float(np.median(steps.duration_ns))
    is_long = steps.duration_ns > _LONG * median
    excess = float(((steps.duration_ns - median) * steps.weight)[is_long].sum()) / 1e9
    share = excess / steps.seconds() if steps.seconds() > 0 else 0.0
    if share < 0.1:
        return {}
    count = int(steps.weight[is_long].sum())
    return {"long_steps": {"count": count, "of": steps.count(), "excess_share": share}}


def _spoken_long(evidence: dict[str, Any], phase: str) -> str:
    long = evidence.get("long_steps")
    if not long or long["excess_share"] < evidence["shares"][phase] / 2:
        return ""
    return f", most of it in {long['count']:,} of {long['of']:,} steps"
