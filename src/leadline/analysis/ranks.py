"""The ranks of a job side by side: which one makes the others wait, and with what."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.analysis.steps import PARTS, WATCHING, StepTable

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_RANK: Final = re.compile(r"rank(\d+)-")
_FACTOR: Final = 1.2
_LEAST_MS: Final = 1.0
_COLLECTIVE: Final = PARTS.index("collective")
_BACKWARD: Final = PARTS.index("backward")


@dataclass(frozen=True, slots=True)
class SlowRank:
    """The slowest rank, where one is."""

    rank: int
    worker: str
    times: float
    """Its time outside collectives, in those of the median rank."""
    lost_ms: float
    """What it takes more than the median rank, a step."""
    phase: str
    """In which it loses most."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks at the same steps.

    Units:
        Milliseconds a step, medians over the steps.
    """

    by_rank: dict[int, dict[str, float]]
    """``step`` and each phase, by rank."""
    steps: int
    """How many steps all of them have."""
    straggler: SlowRank | None

    def spoken(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "steps": self.steps,
            "by_rank": {str(rank): each for rank, each in self.by_rank.items()},
            "straggler": asdict(self.straggler) if self.straggler else None,
        }


def compare_ranks(steps: StepTable) -> Ranks | None:
    """Compare the ranks at the training steps that all of them have; None: there are fewer than two.

    A rank's own time is what it spends outside collectives; where collectives go on inside ``backward`` unseen, what
    its backward takes beyond the shortest one's is waiting as well. It makes the others wait when its median own
    time, with or without that, is more than 1.2 times the median rank's and 1 ms more.
    """
    steps = steps.only(mode="train")
    numbers = {place: int(match[1]) for place, name in enumerate(steps.workers) if (match := _RANK.match(name))}
    latest = {rank: place for place, rank in numbers.items() if bool(np.any(steps.worker == place))}
    if len(latest) < 2:
        return None
    mine = {rank: steps.where(steps.worker == place) for rank, place in sorted(latest.items())}
    shared = sorted(set.intersection(*(set(each.step.tolist()) for each in mine.values())))
    if not shared:
        return None
    cells = {rank: each.where(np.isin(each.step, shared)) for rank, each in mine.items()}
    by_rank = {
        rank: {
            "step": float(np.median(each.duration_ns)) / 1e6,
            **{name: float(np.median(each.phases[:, at])) / 1e6 for at, name in enumerate(PARTS)},
        }
        for rank, each in cells.items()
    }
    workers = {rank: steps.workers[place] for rank, place in latest.items()}
    return Ranks(by_rank, len(shared), _straggler(list(cells), list(cells.values()), workers))


def _straggler(ranks: list[int], cells: list[StepTable], workers: dict[int, str]) -> SlowRank | None:
    phases = np.stack([each.phases for each in cells])  # (ranks, steps, PARTS)
    durations = np.stack([each.duration_ns for each in cells]).astype(np.float64)
    whole = durations - phases[:, :, _COLLECTIVE]
    backward = phases[:, :, _BACKWARD]
    synced = whole - backward + backward.min(axis=0)
    found = [_slowest(own, phases, parts) for own, parts in ((whole, _PARTS), (synced, _UNSYNCED))]
    slow = max((each for each in found if each is not None), key=lambda each: each[1], default=None)
    if slow is None:
        return None
    place, times, lost_ns, phase = slow
    return SlowRank(ranks[place], workers[ranks[place]], times, lost_ns / 1e6, phase)


def _slowest(own: Floats, phases: Floats, parts: tuple[str, ...]) -> tuple[int, float, float, str] | None:
    """Place, times the median rank's, nanoseconds more a step, and phase of the slowest; None: none is slow."""
    medians = np.median(own, axis=1)
    usual = float(np.sort(medians)[(len(medians) - 1) // 2])
    place = int(np.argmax(medians))
    lost = float(medians[place]) - usual
    if usual <= 0 or medians[place] <= _FACTOR * usual or lost < _LEAST_MS * 1e6:
        return None
    means = phases.mean(axis=1)
    excess = means[place] - np.sort(means, axis=0)[(len(medians) - 1) // 2]
    phase = max(parts, key=lambda name: float(excess[PARTS.index(name)]))
    return place, float(medians[place]) / usual, lost, phase


_PARTS: Final = tuple(each for each in PARTS if each not in ("collective", WATCHING))
_UNSYNCED: Final = tuple(each for each in _PARTS if each != "backward")
