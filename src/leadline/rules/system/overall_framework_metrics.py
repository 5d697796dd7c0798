"""The rule overall_framework_metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from leadline.records.names import PHASES
from leadline.rules import Clear, Needs, Rule, Undecided, Verdict, Window
from leadline.rules.system.step_times import OTHER, Step, StepTimes
from leadline.rules.system.system_rule import SCAN_SECONDS

_RUN_PHASES = ("imports", "setup")


class PhaseRow(TypedDict):
    """The time of a phase in the steps of a mode of a worker; the share is of all its steps."""

    worker: str
    mode: str
    phase: str
    seconds: float
    share: float | None
    steps: int


@dataclass(slots=True)
class _Times:
    """The phase times of one worker and mode."""

    taken_ns: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    total_ns: int = 0
    steps: int = 0

    def add_step(self, step: Step) -> None:
        self.total_ns += step.weight * step.duration_ns
        self.steps += step.weight
        for name in (*step.phases, OTHER):
            self.add(name, step.weight * step.phase_ns(name), step.weight)

    def add(self, name: str, taken_ns: int, count: int) -> None:
        self.taken_ns[name] = self.taken_ns.get(name, 0) + taken_ns
        self.counts[name] = self.counts.get(name, 0) + count

    def rows(self, worker: str, mode: str) -> list[PhaseRow]:
        total = self.total_ns or sum(self.taken_ns.values())
        return [
            {
                "worker": worker,
                "mode": mode,
                "phase": name,
                "seconds": self.taken_ns[name] / 1e9,
                "share": self.taken_ns[name] / total if total else None,
                "steps": self.counts[name],
            }
            for name in (*PHASES, OTHER, *_RUN_PHASES)
            if name in self.taken_ns
        ]


@dataclass(slots=True)
class _Workers:
    steps: dict[str, StepTimes] = field(default_factory=dict)
    """By mode."""
    times: dict[tuple[str, str], _Times] = field(default_factory=dict)


class OverallFrameworkMetrics(Rule, frozen=True, kw_only=True):
    """Never fires: keeps a table of the training time by phase.

    Why it matters:
        The time of each phase shows what is worth speeding up.
    How it decides:
        The table has the sums of the phases so far for each worker and mode. The time of a phase within another one
        is subtracted from the outer phase, and ``other`` is the time of the steps outside their phases. Shares are
        relative to the time of the steps. If only one step in N was written, it counts as N steps. The table is
        ``product`` in ``rules/<name>/status.json``.
    Not a number:
        A phase that never occurred has no row.
    Blind spots:
        The table has no operators and devices; see the detailed profile windows.
    Source:
        SageMaker developer guide, "OverallFrameworkMetrics".
    """

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, phases=(*PHASES, "step", *_RUN_PHASES))

    def remember(self, memory: Any, window: Window) -> _Workers:
        workers: _Workers = memory or _Workers({mode: StepTimes(mode) for mode in ("train", "eval", "predict")})
        spans = window.spans()
        for mode, steps in workers.steps.items():
            for step in steps.add(spans):
                workers.times.setdefault((step.worker, mode), _Times()).add_step(step)
        for row in spans:
            if row.key.name in _RUN_PHASES:
                times = workers.times.setdefault((row.key.worker, row.key.mode), _Times())
                times.add(row.key.name, int(row.durations_ns.sum()), len(row.durations_ns))
        return workers

    def evaluate(self, window: Window) -> Verdict:
        times: dict[tuple[str, str], _Times] = window.memory.times
        rows = [row for (worker, mode), phases in sorted(times.items()) for row in phases.rows(worker, mode)]
        return Clear({"phases": rows}) if rows else Undecided("no step was timed")
