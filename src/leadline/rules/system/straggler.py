"""The rule straggler."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.names import PHASES
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.step_times import OTHER, Step, StepTimes, rank_of

if TYPE_CHECKING:
    from leadline.reader.window import Window

_LEAST_NS: Final = 1_000_000
"""What a rank must lose a step for it to matter."""
_MOST_WAITING: Final = 1_000
"""Steps that wait for the other ranks."""
_PARTS: Final = tuple(each for each in (*PHASES, OTHER) if each != "collective")


@dataclass(slots=True)
class _Loss:
    """A rank that was slow at each of its last steps."""

    worker: str
    steps: int = 0
    first_step: int = -1
    own_ns: int = 0
    """Time outside collectives in these steps."""
    usual_ns: int = 0
    """That of the median rank."""
    by_phase: dict[str, int] = field(default_factory=dict)
    """What it took more than the median rank."""


@dataclass(slots=True)
class _Ranks:
    times: StepTimes = field(default_factory=StepTimes)
    waiting: dict[int, dict[int, Step]] = field(default_factory=dict)
    """By step and rank, those that not every rank has come to."""
    last: dict[int, int] = field(default_factory=dict)
    """By rank, the last step."""
    losses: dict[int, _Loss] = field(default_factory=dict)
    compared: int = 0


class Straggler(Rule, frozen=True, kw_only=True):
    """Fires when one rank takes longer than the others, step after step, and so makes them wait.

    Why it matters:
        Ranks that exchange gradients go at the pace of the slowest: one slow disk, throttled GPU or busy core slows
        down all that is paid for.
    How it decides:
        At the same step a rank's time outside collectives is ``> factor * the median rank's`` (of an even number the
        lower one of the two in the middle) and 1 ms more than that, for ``patience`` steps running. Where collectives
        go on inside ``backward`` unseen (``DistributedDataParallel``), what a rank's backward takes beyond the
        shortest is waiting too: a rank is slow if it is with or without that. The phase named is the one that
        it loses most in.
    Not a number:
        Looks at no numbers but times.
    Blind spots:
        Ranks that wait for each other where nothing is seen (a backward with collectives of its own, kernels of a
        library) look alike, and a rank that is slow within such a backward is then not found. Ranks that do different
        work (pipelines, parameter servers) are compared all the same. Fewer than two ranks: undecided.
    Args:
        factor: How many times the median rank's time is too much, > 1.
        patience: Steps running, >= 1.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("load_balancing", "low_gpu_utilization")

    factor: Annotated[float, msgspec.Meta(gt=1)] = 1.2
    patience: Annotated[int, msgspec.Meta(ge=1)] = 20

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, phases=(*PHASES, "step"))

    def remember(self, memory: Any, window: Window) -> _Ranks:
        ranks: _Ranks = memory or _Ranks()
        for each in ranks.times.add(window.spans()):
            rank = rank_of(each.worker)
            ranks.waiting.setdefault(each.step, {})[rank] = each
            ranks.last[rank] = max(each.step, ranks.last.get(rank, -1))
        for step in sorted(ranks.waiting):
            if not self._is_whole(ranks, step):
                break
            self._compare(ranks, ranks.waiting.pop(step))
        for step in sorted(ranks.waiting)[:-_MOST_WAITING]:
            del ranks.waiting[step]
        return ranks

    @staticmethod
    def _is_whole(ranks: _Ranks, step: int) -> bool:
        """Whether every rank has passed a step."""
        return len(ranks.last) > 1 and all(last >= step for last in ranks.last.values())

    def _compare(self, ranks: _Ranks, steps: dict[int, Step]) -> None:
        if len(steps) < 2:
            return
        ranks.compared += 1
        shortest = min(each.phase_ns("backward") for each in steps.values())
        whole = {rank: each.duration_ns - each.phase_ns("collective") for rank, each in steps.items()}
        synced = {rank: own - steps[rank].phase_ns("backward") + shortest for rank, own in whole.items()}
        for rank, step in steps.items():
            slow = [(own, parts) for own, parts in ((whole, _PARTS), (synced, _UNSYNCED)) if self._is_slow(own, rank)]
            if slow:
                own, parts = slow[-1]
                self._lose(ranks, rank, step, own, {name: _usual(steps, name) for name in parts})
            else:
                ranks.losses.pop(rank, None)

    def _is_slow(self, own: dict[int, int], rank: int) -> bool:
        usual = median_low(own.values())
        return own[rank] > self.factor * usual and own[rank] - usual >= _LEAST_NS

    @staticmethod
    def _lose(ranks: _Ranks, rank: int, step: Step, own: dict[int, int], usual: dict[str, int]) -> None:
        loss = ranks.losses.setdefault(rank, _Loss(step.worker, first_step=step.step))
        loss.steps += 1
        loss.own_ns += own[rank]
        loss.usual_ns += median_low(own.values())
        for name, usual_ns in usual.items():
            loss.by_phase[name] = loss.by_phase.get(name, 0) + step.phase_ns(name) - usual_ns

    def evaluate(self, window: Window) -> Verdict:
        ranks: _Ranks = window.memory
        slow = {rank: each for rank, each in ranks.losses.items() if each.steps >= self.patience}
        if not slow:
            if ranks.compared >= self.patience:
                return Clear()
            is_alone = len(ranks.last) < 2
            return Undecided("fewer than two ranks were timed" if is_alone else f"fewer than {self.patience} steps")
        rank = max(slow, key=lambda each: (slow[each].own_ns / slow[each].usual_ns, each))
        loss = slow[rank]
        phase = max(loss.by_phase, key=lambda each: loss.by_phase[each])
        lost_ms = (loss.own_ns - loss.usual_ns) / loss.steps / 1e6
        times = loss.own_ns / loss.usual_ns
        return Fired(
            f"rank {rank} takes {times:.2f} times as long as the median rank, {lost_ms:.3g} ms more a step, most of it "
            f"in {phase}{and_more(len(slow) - 1, 'rank')}",
            tensors=tuple(each.worker for _, each in sorted(slow.items())),
            evidence={
                "rank": rank,
                "times": times,
                "lost_ms": lost_ms,
                "phase": phase,
                "since_step": loss.first_step,
                "lost_ms_by_phase": {name: ns / loss.steps / 1e6 for name, ns in loss.by_phase.items()},
            },
            suggestion=_SUGGESTIONS.get(phase, _SUGGESTION),
            worker=loss.worker,
        )


_UNSYNCED: Final = tuple(each for each in _PARTS if each != "backward")
_SUGGESTION: Final = (
    "what else runs on that rank's node and device, its clocks and its share of the batch; "
    "usually the device is throttled or shared, or the rank has more to do"
)
_SUGGESTIONS: Final = {
    "data": "that rank's data: its disk, its shard, its number of data loader workers; "
    "usually its loader is slower or its samples are larger",
    "checkpoint": "saving less often, or asynchronously; usually one rank saves for all, and the others wait",
    OTHER: "what only that rank does between its phases (logging, metrics, evaluation); "
    "usually rank 0 does what the others do not",
}


def _usual(steps: dict[int, Step], name: str) -> int:
    return median_low(each.phase_ns(name) for each in steps.values())
