"""The rule overall_framework_metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leadline.records.names import PHASES
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.system.device_metrics import SCAN_SECONDS
from leadline.rules.system.step_times import OTHER, Step, StepTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window

_OF_THE_RUN = ("imports", "setup")


@dataclass(slots=True)
class _Times:
    """Of one worker and mode."""

    taken_ns: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    whole_ns: int = 0
    steps: int = 0

    def add_step(self, step: Step) -> None:
        self.whole_ns += step.weight * step.duration_ns
        self.steps += step.weight
        for name in (*step.phases, OTHER):
            self.add(name, step.weight * step.phase_ns(name), step.weight)

    def add(self, name: str, taken_ns: int, count: int) -> None:
        self.taken_ns[name] = self.taken_ns.get(name, 0) + taken_ns
        self.counts[name] = self.counts.get(name, 0) + count

    def rows(self, worker: str, mode: str) -> list[dict[str, Any]]:
        whole = self.whole_ns or sum(self.taken_ns.values())
        return [
            {
                "worker": worker,
                "mode": mode,
                "phase": name,
                "seconds": self.taken_ns[name] / 1e9,
                "share": self.taken_ns[name] / whole if whole else None,
                "steps": self.counts[name],
            }
            for name in (*PHASES, OTHER, *_OF_THE_RUN)
            if name in self.taken_ns
        ]


@dataclass(slots=True)
class _Workers:
    steps: dict[str, StepTimes] = field(default_factory=dict)
    """By mode."""
    times: dict[tuple[str, str], _Times] = field(default_factory=dict)


class OverallFrameworkMetrics(Rule, frozen=True, kw_only=True):
    """Never fires: keeps a table of how the training's time divides among its phases.

    Why it matters:
        Where the time goes decides what is worth making faster.
    How it decides:
        For each worker and mode the sums of the phases so far; what lies within another phase is taken out of that
        one, and ``other`` is what the steps have beside their phases. Shares are of the steps' time. Where only one
        step in so many was written, each counts for so many. The table is ``product`` in
        ``rules/<name>/status.json``.
    Not a number:
        A phase that never came has no row.
    Blind spots:
        Operators and devices come from profiled windows, not from here.
    Args:
    Source:
        SageMaker developer guide, "OverallFrameworkMetrics".
    """

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, phases=(*PHASES, "step", *_OF_THE_RUN))

    def remember(self, memory: Any, window: Window) -> _Workers:
        workers: _Workers = memory or _Workers({mode: StepTimes(mode) for mode in ("train", "eval", "predict")})
        spans = window.spans()
        for mode, steps in workers.steps.items():
            for each in steps.add(spans):
                workers.times.setdefault((each.worker, mode), _Times()).add_step(each)
        for found in spans:
            if found.key.name in _OF_THE_RUN:
                times = workers.times.setdefault((found.key.worker, found.key.mode), _Times())
                times.add(found.key.name, int(found.durations_ns.sum()), len(found.durations_ns))
        return workers

    def evaluate(self, window: Window) -> Verdict:
        times: dict[tuple[str, str], _Times] = window.memory.times
        rows = [row for (worker, mode), each in sorted(times.items()) for row in each.rows(worker, mode)]
        return Clear({"phases": rows}) if rows else Undecided("no step was timed")
