"""Bottleneck of a run: input, compute, communication, host or memory, with evidence and a suggestion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.loader_advice import MOST_LIKELY, OR_RESULTS, WAIT, WAITING_SHARE
from leadline.analysis.overload import Overload, find_overload, own_shares
from leadline.analysis.ranks import Ranks, SlowRank
from leadline.analysis.steps import Integers, StepTable
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
from leadline.analysis.time_document import BottleneckDocument
from leadline.analysis.trees import FRAMEWORKS as TREES
from leadline.analysis.usage import mean_of, usage_by_phase
from leadline.records.formatting import phase_label, significant
from leadline.records.json_object import JsonObject
from leadline.records.names import MODES, OTHER, OVERHEAD, PARTS

_BOTTLENECK_SHARE: Final = 0.3
"""A phase that comes to at least this share of the recorded time is the bottleneck …"""
_LEAST_SHARE: Final = 0.2
"""… until it falls to this share."""
_LEAST_SECONDS: Final = 0.002
"""A phase other than computing that takes less time per step is no bottleneck: such steps are Python calls."""
_FULL_PERCENT: Final = 95.0
_IDLE_PERCENT: Final = 50.0
_COMPUTING: Final = ("forward", "backward", "optimizer")
_LONG_FACTOR: Final = 3.0
"""Steps longer than this many medians are long."""
_MIN_STEPS: Final = 5

Evidence = JsonObject
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
    evidence: Evidence

    def to_dict(self) -> BottleneckDocument:
        """Return plain JSON values."""
        return {
            "kind": self.kind,
            "phase": self.phase,
            "message": self.message,
            "evidence": self.evidence,
            "try": self.suggestion,
        }

    def summary(self) -> dict[str, str]:
        """Return plain JSON values without the evidence."""
        return {"kind": self.kind, "phase": self.phase, "message": self.message, "try": self.suggestion}


def find_bottleneck(
    steps: StepTable,
    system: pa.Table,
    ranks: Ranks | None,
    verdicts: Mapping[str, str] | None = None,
    *,
    framework: str = "",
    loader: tuple[int, int] | None = None,
    computes_later: bool = False,
) -> Bottleneck | None:
    """Find the bottleneck of the training steps of a run.

    Checked in this order: memory (it grows steadily, or is full); a straggling rank; the largest of waiting for data,
    the host's work before the model is called, collectives, checkpoints, Leadline itself and time between the phases,
    if it is large, and 2 ms; a compute phase of that size in which the training's thread waits; a GPU that is idle for
    more than half of the compute phases, which means that the host is too slow; compute, if it is large. Time before
    ``backward`` counts as compute only where the call of the model was observed, or a data loader delivers the batches.

    A phase is large from the step at which it comes to 30 % of the recorded time until it falls to 20 %, the step in
    which it took longest aside; on an overloaded machine its waits for a processor do not count. The training waits for
    data only where the rule ``input_bound`` does not say that it does not.

    Args:
        verdicts: The state of each rule, as ``describe.rule_state``.
        framework: What trains, which changes the suggestions: ``tensorflow 2.21``, …; empty: PyTorch.
        loader: The worker processes of the data loader, and the processors of its node; None: unknown.
        computes_later: Whether the framework computes while the script goes on.
    Returns:
        The bottleneck; None if too few steps were timed, if the machine was so overloaded that times say nothing (but
        of data that the training's thread loads itself), or if what takes the most time was not measured. Compute is
        no bottleneck where the rule ``input_bound`` has found that parts of the run wait for data.
    """
    later = steps.only(mode="train").after_first()
    if later.count() < _MIN_STEPS:
        return None
    tries, is_boosted_run = suggestions(framework, loader), framework.startswith(TREES)
    states: Mapping[str, str] = verdicts or {}
    overload, times = find_overload(steps), _Times.of(steps, later)
    evidence = _long_steps(later) | {"shares": times.shares, "cpu_shares": times.ready}
    if overload is not None:
        evidence["overload"] = overload.to_dict()
    memory = _memory(system, states, evidence, tries)
    if memory is not None:
        return memory
    input_state = states.get("input_bound", "")
    if overload is not None and overload.is_severe:
        # a thread that loads its data itself waits for a processor there as elsewhere, which changes no share
        loads_itself = loader is not None and loader[0] == 0
        only = {"data": (INPUT, "waiting for data", tries[INPUT])}
        return _largest(times, only, evidence) if loads_itself and input_state != "clear" else None
    if overload is not None and times.ready:
        times = times.without_waits(overload)
    bottleneck = (
        (_waiting(ranks.straggler, evidence, tries) if ranks is not None and ranks.straggler is not None else None)
        or _largest(times, _candidates(times, input_state, tries, computes_later=computes_later), evidence)
        or _blocked(times, evidence, tries)
        or _idle_gpu(system, later, evidence, tries)
        or (_computing(times, evidence, tries) if is_boosted_run or _is_forward_known(times) else None)
    )
    if bottleneck is not None and bottleneck.kind == COMPUTE and states.get("input_bound") == "fired":
        return None
    if bottleneck is not None and bottleneck.kind in (INPUT, HOST) and overload is not None:
        bottleneck = replace(bottleneck, suggestion=f"{OVERLOADED}; then {bottleneck.suggestion}")
    return _in_words_of_trees(bottleneck, times) if bottleneck is not None and is_boosted_run else bottleneck


@dataclass(frozen=True, slots=True)
class _Times:
    """What the phases of the steps took."""

    steps: StepTable
    """The train steps after the first."""
    ends: npt.NDArray[np.intp]
    """The order in which all steps ended, those of evaluation included: indices of train steps; -1: another one."""
    durations_ns: Integers
    """Of all steps, in that order."""
    shares: dict[str, float]
    """Of the recorded time, evaluation included, as in the time breakdown."""
    ready: dict[str, float]
    """The share of each phase in which the training's thread did not wait."""
    own: dict[str, float] = field(default_factory=dict)
    """The share of each phase that counts; all of it unless it is given."""

    @classmethod
    def of(cls, steps: StepTable, later: StepTable) -> _Times:
        others = steps.where(steps.mode != MODES.index("train"))
        ends_ns = np.concatenate([table.start_ns + table.duration_ns for table in (later, others)])
        durations_ns = np.concatenate([table.duration_ns * table.weight for table in (later, others)])
        indices = np.concatenate([np.arange(len(later)), np.full(len(others), -1)])
        order = np.argsort(ends_ns, kind="stable")
        whole = float(durations_ns.sum()) / 1e9
        shares = {name: total / whole for name, total in later.seconds_by_phase().items()} if whole > 0 else {}
        return cls(later, indices[order], durations_ns[order], shares, later.ready_shares())

    def without_waits(self, overload: Overload) -> _Times:
        """Return the times of which waits for a processor do not count."""
        own, used = own_shares(self.steps.seconds_by_phase(), self.ready, overload)
        return replace(self, ready=used, own=own)

    @property
    def step_seconds(self) -> float:
        return self.steps.seconds() / self.steps.count()

    def are_large(self, *phases: str) -> bool:
        """Return whether phases have come to the share of a bottleneck, and have not fallen below the least since.

        A function of all steps so far: what is said of the run does not change with every few steps.
        """
        steps, is_train = self.steps, self.ends >= 0
        columns = (steps.phases[:, PARTS.index(name)] * self.own.get(name, 1.0) for name in phases)
        phase_ns = np.where(is_train, sum(columns)[self.ends], 0.0)  # type: ignore[index]
        weights = np.where(is_train, steps.weight[self.ends], 0)
        longest_ns = np.maximum.accumulate(phase_ns)
        rest_ns = np.cumsum(self.durations_ns) - longest_ns
        is_known = (np.cumsum(weights) >= _MIN_STEPS) & (rest_ns > 0)
        shares = ((np.cumsum(phase_ns * weights) - longest_ns) / np.maximum(rest_ns, 1))[is_known]
        large, small = np.flatnonzero(shares >= _BOTTLENECK_SHARE), np.flatnonzero(shares < _LEAST_SHARE)
        return len(large) > 0 and (len(small) == 0 or large[-1] > small[-1])


def _in_words_of_trees(bottleneck: Bottleneck, times: _Times) -> Bottleneck:
    """Return a bottleneck of boosted trees, which are built in the optimizer phase and scored in the forward phase."""
    if bottleneck.kind == COMPUTE and bottleneck.phase == "forward" and times.are_large("forward"):
        message = (
            f"{_percent(bottleneck.evidence, 'forward', of='the time of a round')} is spent scoring the evaluation sets"
        )
        return replace(bottleneck, message=message, suggestion=SCORING)
    if bottleneck.kind == COMPUTE and bottleneck.phase == "optimizer":
        return replace(bottleneck, message=f"{bottleneck.message.removesuffix('optimizer')}building the trees")
    return bottleneck


def _memory(system: pa.Table, states: Mapping[str, str], evidence: Evidence, tries: Tries) -> Bottleneck | None:
    samples = system.filter(pc.and_(pc.equal(system["kind"], "memory"), pc.equal(system["metric"], "used_percent")))
    p95 = float(np.percentile(samples["value"].to_numpy(), 95)) if samples.num_rows else None
    evidence = {**evidence, "memory_percent_p95": p95}
    if states.get("memory_growth") == "fired":
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
        {**evidence, "straggler": straggler.to_dict()},
    )


_Candidate = tuple[str, str, str]
"""The kind of a bottleneck, what the time is, and what to try."""


def _candidates(times: _Times, input_bound: str, tries: Tries, *, computes_later: bool) -> dict[str, _Candidate]:
    """Return what each phase may be the bottleneck for."""
    candidates = {
        "host": _before_the_model(times, input_bound, tries, computes_later=computes_later),
        OVERHEAD: (HOST, "Leadline's overhead", tries[OVERHEAD]),
        "data": (INPUT, "waiting for data", tries[INPUT]),
        "collective": (COMMUNICATION, "collectives between ranks", tries[COMMUNICATION]),
        "copy": (HOST, "copying to the device", tries["copy"]),
        "checkpoint": (HOST, "saving checkpoints", tries["checkpoint"]),
        OTHER: (HOST, "spent on the host between the phases", tries[OTHER]),
    }
    if input_bound == "clear":
        del candidates["data"]
    return candidates


def _largest(times: _Times, candidates: Mapping[str, _Candidate], evidence: Evidence) -> Bottleneck | None:
    large = [
        name
        for name in candidates
        if times.shares.get(name, 0.0) * times.step_seconds >= _LEAST_SECONDS and times.are_large(name)
    ]
    if not large:
        return None
    name = max(large, key=lambda phase: times.shares[phase])
    kind, description, suggestion = candidates[name]
    message = f"{_percent(evidence, name)} is {description}{_format_long_steps(evidence, name)}"
    return Bottleneck(kind, name, message, suggestion, evidence)


def _before_the_model(times: _Times, input_bound: str, tries: Tries, *, computes_later: bool) -> _Candidate:
    """Return what time before the model is called is."""
    if times.ready.get("host", 1.0) >= WAITING_SHARE:
        return HOST, "work on the host before the model is called: loading data, callbacks or other code", tries["host"]
    if input_bound == "clear":
        return HOST, WAIT, tries["blocked"]
    if computes_later:
        return HOST, f"{WAIT}: {OR_RESULTS}", tries["host wait"]
    return INPUT, f"{WAIT}: {MOST_LIKELY}", tries["host wait"]


def _blocked(times: _Times, evidence: Evidence, tries: Tries) -> Bottleneck | None:
    """Return a compute phase in which the training's thread waits instead of computing."""
    phase = max(_COMPUTING, key=lambda name: times.shares.get(name, 0.0))
    ready_share = times.ready.get(phase, 1.0)
    if ready_share >= WAITING_SHARE or not times.are_large(phase):
        return None
    message = (
        f"{_percent(evidence, phase)} is {phase}, of which the training's thread waits {100 * (1 - ready_share):.0f} %"
    )
    return Bottleneck(HOST, phase, message, tries["blocked"], evidence)


def _is_forward_known(times: _Times) -> bool:
    """Return whether the time before ``backward`` is known to be the forward pass, or is small."""
    steps = times.steps
    forward, host = (steps.phases[:, PARTS.index(name)] * steps.weight for name in ("forward", "host"))
    unknown = float(forward[host == 0].sum()) / 1e9 / steps.seconds() if steps.seconds() > 0 else 0.0
    return unknown < _BOTTLENECK_SHARE or times.shares.get("data", 0.0) > 0


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


def _computing(times: _Times, evidence: Evidence, tries: Tries) -> Bottleneck | None:
    phase = max(_COMPUTING, key=lambda name: times.shares.get(name, 0.0))
    if not times.are_large(*_COMPUTING):
        return None
    message = f"{_percent(evidence, *_COMPUTING)} is compute, most of it {phase}"
    return Bottleneck(COMPUTE, phase, message, tries[COMPUTE], evidence)


def _percent(evidence: Mapping[str, Any], *phases: str, of: str = "the step time") -> str:
    """``21 % of the step time``."""
    return f"{100 * sum(evidence['shares'].get(phase, 0.0) for phase in phases):.0f} % of {of}"


def _long_steps(steps: StepTable) -> Evidence:
    """Return how much time long steps take beyond the median, if it is significant."""
    median = float(np.median(steps.duration_ns))
    is_long = steps.duration_ns > _LONG_FACTOR * median
    excess = float(((steps.duration_ns - median) * steps.weight)[is_long].sum()) / 1e9
    share = excess / steps.seconds() if steps.seconds() > 0 else 0.0
    if share < 0.1:
        return {}
    count = int(steps.weight[is_long].sum())
    return {"long_steps": {"count": count, "of": steps.count(), "excess_share": share}}


def _format_long_steps(evidence: Evidence, phase: str) -> str:
    long = evidence.get("long_steps")
    if not long or long["excess_share"] < evidence["shares"][phase] / 2:
        return ""
    return f", most of it in {long['count']:,} of {long['of']:,} steps"
