"""The steps of each worker with the times of their phases, put together as they end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.reader.interval import Spans
from leadline.records.names import PHASES

OTHER: Final = "other"
_RANK: Final = re.compile(r"rank(\d+)-")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one worker."""

    worker: str
    step: int
    duration_ns: int
    weight: int
    """For how many steps it stands."""
    phases: dict[str, int]
    """Nanoseconds of each phase; what lies within another is taken out of that one; without ``other``."""

    @property
    def other_ns(self) -> int:
        """What is none of its phases'."""
        return max(0, self.duration_ns - sum(self.phases.values()))

    def phase_ns(self, name: str) -> int:
        """The time of a phase, ``other`` too; 0 where there was none."""
        return self.other_ns if name == OTHER else self.phases.get(name, 0)


@dataclass(slots=True)
class StepTimes:
    """Puts rows of phases and of steps together.

    Args:
        mode: Whose steps; None: all.
    """

    mode: str | None = "train"
    _begun: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)

    def add(self, spans: Iterable[Spans]) -> list[Step]:
        """The steps that ended, worker by worker and in order."""
        ended = []
        for each in spans:
            if self.mode not in (None, each.key.mode):
                continue
            if each.key.name == "step":
                ended.append(each)
            else:
                self._take(each)
        return [step for each in ended for step in self._steps(each)]

    def _take(self, spans: Spans) -> None:
        begun = self._begun.setdefault(spans.key.worker, {})
        name, within = spans.key.name, spans.key.within
        for step, taken in zip(spans.steps.tolist(), spans.durations_ns.tolist(), strict=True):
            phases = begun.setdefault(step, {})
            phases[name] = phases.get(name, 0) + taken
            if within:
                phases[within] = phases.get(within, 0) - taken

    def _steps(self, spans: Spans) -> list[Step]:
        begun = self._begun.setdefault(spans.key.worker, {})
        columns = (each.tolist() for each in (spans.steps, spans.durations_ns, spans.weights))
        found = [
            Step(spans.key.worker, step, taken, weight, {name: max(0, ns) for name, ns in begun.pop(step, {}).items()})
            for step, taken, weight in zip(*columns, strict=True)
        ]
        for step in [step for step in begun if step < found[-1].step]:
            del begun[step]
        return found


def rank_of(worker: str) -> int:
    """The rank in a worker's name; -1 where there is none."""
    match = _RANK.match(worker)
    return int(match[1]) if match else -1


def slow_phase(some: Sequence[Step], usual: Sequence[Step]) -> str:
    """The phase that some steps spend most more on than the usual ones do, on average."""

    def mean(steps: Sequence[Step], name: str) -> float:
        return sum(each.phase_ns(name) for each in steps) / len(steps)

    return max((*PHASES, OTHER), key=lambda name: mean(some, name) - mean(usual, name))
