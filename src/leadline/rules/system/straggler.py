"""The rule straggler."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, ClassVar, Final

from leadline.records.formatting import phase_label, significant
from leadline.records.names import PHASES, rank_of
from leadline.rules import Advice, Clear, Needs, NotApplicable, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import Factor, PositiveInt
from leadline.rules.messages import fired, too_few
from leadline.rules.system.step_times import OTHER, Step, StepTimes

_MIN_LOST_NS: Final = 1_000_000
"""Smaller losses per step are ignored."""
_MAX_WAITING: Final = 1_000
"""Steps that are kept until all ranks have reached them."""
_PHASES: Final = tuple(phase for phase in (*PHASES, OTHER) if phase != "collective")


@dataclass(slots=True)
class _LostTime:
    """The time that a rank lost in its latest slow steps in a row."""

    worker: str
    steps: int = 0
    first_step: int = -1
    taken_ns: int = 0
    """Time outside collectives in these steps."""
    usual_ns: int = 0
    """The time of the median rank in these steps."""
    by_phase: dict[str, int] = field(default_factory=dict)
    """The difference from the median rank."""


@dataclass(slots=True)
class _Ranks:
    times: StepTimes = field(default_factory=StepTimes)
    waiting: dict[int, dict[int, Step]] = field(default_factory=dict)
    """Steps that not all ranks have reached yet, by step and rank."""
    last: dict[int, int] = field(default_factory=dict)
    """The last step of each rank."""
    losses: dict[int, _LostTime] = field(default_factory=dict)
    compared: int = 0


class Straggler(Rule, frozen=True, kw_only=True):
    """Fires when one rank is slower than the others, step after step, and makes them wait.

    Why it matters:
        Ranks that exchange gradients run at the speed of the slowest one: one slow disk, throttled GPU or busy core
        slows down the whole job.
    How it decides:
        Fires if, at ``patience`` steps in a row, the time of a rank outside collectives is ``> factor * the median
        rank's`` (of two medians the lower one) and at least 1 ms longer. If collectives run inside ``backward`` and
        are not visible (``DistributedDataParallel``), the time of a rank's backward beyond the shortest one also
        counts as waiting: a rank is slow if it is slow with or without that time. The finding names the phase with
        the largest loss.
    Not a number:
        Only times are evaluated.
    Blind spots:
        Ranks that wait for each other in a phase without visible collectives (a backward with its own collectives,
        kernels of a library) all look alike, and a rank that is slow within such a backward is not found. Ranks
        with different work (pipelines, parameter servers) are compared as well.
    Args:
        factor: Multiple of the median rank's time that is too much, > 1.
        patience: Steps in a row, >= 1.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("load_balancing", "low_gpu_utilization")

    factor: Factor = 1.2
    patience: PositiveInt = 20

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, phases=(*PHASES, "step"))

    def remember(self, memory: Any, window: Window) -> _Ranks:
        ranks: _Ranks = memory or _Ranks()
        for timed in ranks.times.add(window.spans()):
            rank = rank_of(timed.worker)
            rank = -1 if rank is None else rank
            ranks.waiting.setdefault(timed.step, {})[rank] = timed
            ranks.last[rank] = max(timed.step, ranks.last.get(rank, -1))
        for step in sorted(ranks.waiting):
            if not self._is_complete(ranks, step):
                break
            self._compare(ranks, ranks.waiting.pop(step))
        for step in sorted(ranks.waiting)[:-_MAX_WAITING]:
            del ranks.waiting[step]
        return ranks

    @staticmethod
    def _is_complete(ranks: _Ranks, step: int) -> bool:
        """Return whether every rank has reached a step."""
        return len(ranks.last) > 1 and all(last >= step for last in ranks.last.values())

    def _compare(self, ranks: _Ranks, steps: dict[int, Step]) -> None:
        if len(steps) < 2:
            return
        ranks.compared += 1
        shortest = min(step.phase_ns("backward") for step in steps.values())
        compute = {rank: step.duration_ns - step.phase_ns("collective") for rank, step in steps.items()}
        synced = {rank: taken_ns - steps[rank].phase_ns("backward") + shortest for rank, taken_ns in compute.items()}
        for rank, step in steps.items():
            slow = [
                (times, phases)
                for times, phases in ((compute, _PHASES), (synced, _UNSYNCED))
                if self._is_slow(times, rank)
            ]
            if slow:
                times, phases = slow[-1]
                self._add_loss(ranks, rank, step, times, {name: _usual(steps, name) for name in phases})
            else:
                ranks.losses.pop(rank, None)

    def _is_slow(self, times: dict[int, int], rank: int) -> bool:
        usual = median_low(times.values())
        return times[rank] > self.factor * usual and times[rank] - usual >= _MIN_LOST_NS

    @staticmethod
    def _add_loss(ranks: _Ranks, rank: int, step: Step, times: dict[int, int], usual: dict[str, int]) -> None:
        loss = ranks.losses.setdefault(rank, _LostTime(step.worker, first_step=step.step))
        loss.steps += 1
        loss.taken_ns += times[rank]
        loss.usual_ns += median_low(times.values())
        for name, usual_ns in usual.items():
            loss.by_phase[name] = loss.by_phase.get(name, 0) + step.phase_ns(name) - usual_ns

    def evaluate(self, window: Window) -> Verdict:
        ranks: _Ranks = window.memory
        slow = {rank: loss for rank, loss in ranks.losses.items() if loss.steps >= self.patience}
        if not slow:
            if ranks.compared >= self.patience:
                return Clear()
            if len(ranks.last) > 1:
                return too_few(ranks.compared, self.patience, "steps of all ranks")
            return NotApplicable("one process") if ranks.last else Undecided("no step was timed")
        rank = max(slow, key=lambda rank: (slow[rank].taken_ns / slow[rank].usual_ns, rank))
        loss = slow[rank]
        phase = max(loss.by_phase, key=lambda phase: loss.by_phase[phase])
        lost_ms = (loss.taken_ns - loss.usual_ns) / loss.steps / 1e6
        times = loss.taken_ns / loss.usual_ns
        return fired(
            f"rank {rank} takes {times:.2f} times as long as the median rank, {significant(lost_ms)} "
            "ms more per step, most of "
            f"it in {phase_label(phase)}",
            *(loss.worker for _, loss in sorted(slow.items())),
            advice=_SUGGESTIONS.get(phase, _SUGGESTION),
            evidence={
                "rank": rank,
                "times": times,
                "lost_ms": lost_ms,
                "phase": phase,
                "since_step": loss.first_step,
                "lost_ms_by_phase": {name: ns / loss.steps / 1e6 for name, ns in loss.by_phase.items()},
            },
            noun="rank",
            worker=loss.worker,
        )


_UNSYNCED: Final = tuple(phase for phase in _PHASES if phase != "backward")
_SUGGESTION: Final = Advice(
    "checking other processes on that rank's node and device, its clocks and its share of the batch; usually the "
    "device is throttled or shared, or the rank has more to do"
)
_SUGGESTIONS: Final = {
    "data": Advice(
        "checking that rank's data: its disk, its shard, its number of data loader workers; usually its loader is "
        "slower or its samples are larger"
    ),
    "checkpoint": Advice("saving less often, or asynchronously; usually one rank saves for all, and the others wait"),
    OTHER: Advice(
        "checking what only that rank does between its phases (logging, metrics, evaluation); usually rank 0 does work "
        "that the others do not"
    ),
}


def _usual(steps: dict[int, Step], name: str) -> int:
    return median_low(step.phase_ns(name) for step in steps.values())
