"""Comparison of the ranks of a job: detection of stragglers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from leadline.analysis.steps import Floats, StepTable
from leadline.analysis.time_document import RanksDocument, SlowRankDocument
from leadline.records.names import OVERHEAD, PARTS, rank_of

_MIN_SLOWDOWN: Final = 1.2
_MIN_LOST_MS: Final = 1.0
_COLLECTIVE: Final = PARTS.index("collective")
_BACKWARD: Final = PARTS.index("backward")


@dataclass(frozen=True, slots=True)
class SlowRank:
    """The slowest rank, if it delays the others."""

    rank: int
    worker: str
    times: float
    """Its time outside collectives, relative to the median rank."""
    lost_ms: float
    """Additional time per step compared with the median rank."""
    phase: str
    """The phase with the largest loss."""

    def to_dict(self) -> SlowRankDocument:
        """Return plain JSON values."""
        return {
            "rank": self.rank,
            "worker": self.worker,
            "times": self.times,
            "lost_ms": self.lost_ms,
            "phase": self.phase,
        }


@dataclass(frozen=True, slots=True)
class Ranks:
    """The step times of all ranks, at common steps.

    Units:
        Milliseconds per step, medians over the steps.
    """

    by_rank: dict[int, dict[str, float]]
    """``step``, each phase, and the ``own`` time, in which a rank does not wait for others, by rank."""
    steps: int
    """The number of common steps."""
    straggler: SlowRank | None

    def own_ms(self, rank: int) -> float:
        """Return the step time of a rank without the time in which it waits for others."""
        return self.by_rank[rank]["own"]

    def behind_ms(self, rank: int) -> float:
        """Return by how much the own time of a rank is above that of the median rank."""
        return self.own_ms(rank) - _lower_median(np.array([times["own"] for times in self.by_rank.values()]))

    def to_dict(self) -> RanksDocument:
        """Return plain JSON values."""
        return {
            "steps": self.steps,
            "by_rank": {str(rank): times for rank, times in self.by_rank.items()},
            "straggler": self.straggler.to_dict() if self.straggler else None,
        }


def compare_ranks(steps: StepTable) -> Ranks | None:
    """Compare the ranks at their common training steps; None if there are fewer than two ranks.

    The own time of a rank is its time outside collectives. If collectives are hidden in ``backward``, the time beyond
    the shortest backward pass also counts as waiting. A rank is a straggler if its median own time, with or without
    this correction, is more than 1.2 times and 1 ms above that of the median rank.
    """
    steps = steps.only(mode="train")
    numbers = {index: rank for index, name in enumerate(steps.workers) if (rank := rank_of(name)) is not None}
    latest = {rank: index for index, rank in numbers.items() if bool(np.any(steps.worker == index))}
    if len(latest) < 2:
        return None
    tables = {rank: steps.where(steps.worker == index) for rank, index in sorted(latest.items())}
    shared = sorted(set.intersection(*(set(table.step.tolist()) for table in tables.values())))
    if not shared:
        return None
    cells = {rank: table.where(np.isin(table.step, shared)) for rank, table in tables.items()}
    workers = {rank: steps.workers[index] for rank, index in latest.items()}
    straggler, own_ns = _straggler(list(cells), list(cells.values()), workers)
    by_rank = {
        rank: {
            "step": float(np.median(table.duration_ns)) / 1e6,
            "own": float(own) / 1e6,
            **{name: float(np.median(table.phases[:, index])) / 1e6 for index, name in enumerate(PARTS)},
        }
        for (rank, table), own in zip(cells.items(), own_ns, strict=True)
    }
    return Ranks(by_rank, len(shared), straggler)


def _straggler(ranks: list[int], cells: list[StepTable], workers: dict[int, str]) -> tuple[SlowRank | None, Floats]:
    """Return the straggler, and the own time of each rank in ns: the one that shows the straggler, if there is one."""
    phases = np.stack([table.phases for table in cells])  # (ranks, steps, PARTS)
    durations = np.stack([table.duration_ns for table in cells]).astype(np.float64)
    whole = durations - phases[:, :, _COLLECTIVE]
    backward = phases[:, :, _BACKWARD]
    synced = whole - backward + backward.min(axis=0)
    measured = [(np.median(own_ns, axis=1), parts) for own_ns, parts in ((whole, _PARTS), (synced, _UNSYNCED))]
    candidates = [(medians, _slowest(medians, phases, parts)) for medians, parts in measured]
    shown = [(medians, slow) for medians, slow in candidates if slow is not None]
    if not shown:
        return None, measured[0][0]
    medians, (index, times, lost_ns, phase) = max(shown, key=lambda candidate: candidate[1][1])
    return SlowRank(ranks[index], workers[ranks[index]], times, lost_ns / 1e6, phase), medians


def _slowest(medians: Floats, phases: Floats, parts: tuple[str, ...]) -> tuple[int, float, float, str] | None:
    """Place, times the median rank's, nanoseconds more a step, and phase of the slowest; None: none is slow."""
    reference = _lower_median(medians)
    index = int(np.argmax(medians))
    lost = float(medians[index]) - reference
    if reference <= 0 or medians[index] <= _MIN_SLOWDOWN * reference or lost < _MIN_LOST_MS * 1e6:
        return None
    means = phases.mean(axis=1)
    excess = means[index] - np.sort(means, axis=0)[(len(medians) - 1) // 2]
    phase = max(parts, key=lambda name: float(excess[PARTS.index(name)]))
    return index, float(medians[index]) / reference, lost, phase


def _lower_median(values: Floats) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


_PARTS: Final = tuple(part for part in PARTS if part not in ("collective", OVERHEAD))
_UNSYNCED: Final = tuple(part for part in _PARTS if part != "backward")
