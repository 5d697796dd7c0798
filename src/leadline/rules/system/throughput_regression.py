"""The rule throughput_regression."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any, ClassVar, Final

from leadline.records.event import TRAINING
from leadline.records.formatting import significant
from leadline.records.names import PHASES
from leadline.rules import Advice, Clear, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import Factor, PositiveInt
from leadline.rules.messages import fired
from leadline.rules.system.step_times import Step, StepTimes, slow_phase, workers_that_begin

_ADVICE: Final = Advice(
    "checking what grows with the steps: lists of tensors, logs, caches, the length of the data; usually something "
    "kept from each step is processed again at the next, or the machine is shared"
)


@dataclass(slots=True)
class _WorkerSteps:
    """The steps of a worker."""

    latest: deque[Step]
    waiting: list[Step] = field(default_factory=list)
    """Steps since the last complete window."""
    best: list[Step] = field(default_factory=list)
    best_ns: float = float("inf")
    """The lowest median of a complete window before the latest steps."""
    last_window: tuple[float, list[Step]] | None = None
    """The last complete window, which the latest steps may overlap."""


@dataclass(slots=True)
class _Workers:
    times: StepTimes = field(default_factory=StepTimes)
    by_worker: dict[str, _WorkerSteps] = field(default_factory=dict)


class ThroughputRegression(Rule, frozen=True, kw_only=True):
    """Fires when steps take longer than in the fastest part of the run.

    Why it matters:
        In a training that becomes slower something grows or degrades: memory, fragmentation, a list that is
        processed at each step, a hotter GPU, other jobs on the machine.
    How it decides:
        Fires if ``median step time of the last window steps > factor * the lowest median`` of the earlier windows,
        which follow one another from the first step. Each worker is evaluated separately, and from the
        start again when it begins to train another model. The finding names the phase that grew most.
    Not a number:
        Only times are evaluated.
    Blind spots:
        Requires two windows of steps. Trainings whose steps become longer by design (growing sequences or batches)
        fire as well.
    Args:
        factor: Multiple of the fastest time that is too much, > 1.
        window: Steps, >= 1.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"

    factor: Factor = 1.3
    window: PositiveInt = 100

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, phases=(*PHASES, "step", TRAINING))

    def remember(self, memory: Any, window: Window) -> _Workers:
        workers: _Workers = memory or _Workers()
        begun = workers_that_begin(window) & workers.by_worker.keys()
        workers.by_worker = {worker: steps for worker, steps in workers.by_worker.items() if worker not in begun}
        for step in workers.times.add(window.spans()):
            if step.worker in begun:
                continue
            steps = workers.by_worker.setdefault(step.worker, _WorkerSteps(deque(maxlen=self.window)))
            self._add_step(steps, step)
        return workers

    def _add_step(self, steps: _WorkerSteps, step: Step) -> None:
        """Add a step; a complete window counts once all of the latest steps are after it."""
        steps.latest.append(step)
        steps.waiting.append(step)
        if len(steps.waiting) < self.window:
            return
        if steps.last_window is not None and steps.last_window[0] < steps.best_ns:
            steps.best_ns, steps.best = steps.last_window
        steps.last_window = (median([step.duration_ns for step in steps.waiting]), steps.waiting)
        steps.waiting = []

    def evaluate(self, window: Window) -> Verdict:
        judged = {
            worker: (median([step.duration_ns for step in steps.latest]), steps)
            for worker, steps in sorted(window.memory.by_worker.items())
            if steps.best
        }
        slower = {worker: now / steps.best_ns for worker, (now, steps) in judged.items()}
        worker = max(slower, key=lambda worker: (slower[worker], worker), default="")
        if not judged or slower[worker] <= self.factor:
            return Clear() if judged else Undecided(f"fewer than {2 * self.window:,} steps were timed")
        now, steps = judged[worker]
        phase = slow_phase(list(steps.latest), steps.best)
        return fired(
            f"the last {self.window:,} steps take {significant(now / 1e6)} ms, {slower[worker]:.2f} times the "
            f"{significant(steps.best_ns / 1e6)} ms of the best earlier window, mostly in {phase}",
            worker,
            advice=_ADVICE,
            evidence={
                "median_ms": now / 1e6,
                "best_ms": steps.best_ns / 1e6,
                "times": slower[worker],
                "factor": self.factor,
                "phase": phase,
            },
            worker=worker,
        )
