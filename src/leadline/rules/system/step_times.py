"""Steps of each worker with the times of their phases, assembled from rows of the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.reader.interval import Spans
from leadline.records.event import TRAINING
from leadline.records.names import PHASES
from leadline.rules import Window

OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one worker."""

    worker: str
    step: int
    duration_ns: int
    weight: int
    """The number of steps that it represents."""
    phases: dict[str, int]
    """Nanoseconds of each phase, without nested phases and without ``other``."""
    end_ns: int = 0
    ready_ns: int = -1
    """At its end, the time since its thread began in which that used a processor or waited for one; -1: not taken."""
    run_delay_ns: int = -1
    """That in which it waited for a processor."""
    host_ready_ns: int = -1
    """The time of the phase ``host`` in which it used a processor or waited for one; -1: not taken."""

    @property
    def other_ns(self) -> int:
        """The time outside all phases."""
        return max(0, self.duration_ns - sum(self.phases.values()))

    def phase_ns(self, name: str) -> int:
        """Return the time of a phase, including ``other``; 0 if there was none."""
        return self.other_ns if name == OTHER else self.phases.get(name, 0)


@dataclass(slots=True)
class StepTimes:
    """Assembles steps from rows of phases and of steps.

    Args:
        mode: The mode of the steps; None: all.
    """

    mode: str | None = "train"
    _open: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)

    def add(self, spans: Iterable[Spans]) -> list[Step]:
        """Add rows and return the steps that ended, by worker and in order."""
        ended = []
        for row in spans:
            if self.mode not in (None, row.key.mode) or row.key.name == TRAINING:
                continue
            if row.key.name == "step":
                ended.append(row)
            else:
                self._add_phase(row)
        return [step for spans in ended for step in self._steps(spans)]

    def _add_phase(self, spans: Spans) -> None:
        open_steps = self._open.setdefault(spans.key.worker, {})
        name, within = spans.key.name, spans.key.within
        for step, taken in zip(spans.steps.tolist(), spans.durations_ns.tolist(), strict=True):
            phases = open_steps.setdefault(step, {})
            phases[name] = phases.get(name, 0) + taken
            if within:
                phases[within] = phases.get(within, 0) - taken

    def _steps(self, spans: Spans) -> list[Step]:
        open_steps = self._open.setdefault(spans.key.worker, {})
        ends_ns = spans.starts_ns + spans.durations_ns
        names = (spans.steps, spans.durations_ns, spans.weights, ends_ns)
        times = (spans.ready_ns, spans.run_delay_ns, spans.host_ready_ns)
        columns = (column.tolist() for column in (*names, *times))
        ended = [
            Step(
                spans.key.worker,
                step,
                taken,
                weight,
                {name: max(0, ns) for name, ns in open_steps.pop(step, {}).items()},
                *times_ns,
            )
            for step, taken, weight, *times_ns in zip(*columns, strict=True)
        ]
        for step in [step for step in open_steps if step < ended[-1].step]:
            del open_steps[step]
        return ended


def workers_that_begin(window: Window) -> set[str]:
    """Return the workers of which a training begins within the interval of a window; its steps are of two models."""
    return {spans.key.worker for spans in window.spans(TRAINING)}


def slow_phase(some: Sequence[Step], usual: Sequence[Step]) -> str:
    """Return the phase whose mean time in ``some`` steps exceeds that in the ``usual`` ones most."""

    def mean(steps: Sequence[Step], name: str) -> float:
        return sum(step.phase_ns(name) for step in steps) / len(steps)

    return max((*PHASES, OTHER), key=lambda name: mean(some, name) - mean(usual, name))
