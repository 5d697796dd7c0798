"""The rule step_outlier."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from leadline.records.event import TRAINING
from leadline.records.formatting import exact, significant
from leadline.records.names import PHASES
from leadline.rules import Advice, Clear, Fired, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeInt, PositiveFloat
from leadline.rules.messages import fired
from leadline.rules.system.step_times import Step, StepTimes, slow_phase, workers_that_begin
from leadline.rules.system.system_rule import SCAN_SECONDS

_MAX_STEPS: Final = 10_000
_MIN_STEPS: Final = 3
_ADVICE: Final = Advice(
    "checking what the script does at these steps (checkpoints, evaluation, logging), or gc.freeze(); usually "
    "something runs every N steps, or data arrive in bursts"
)


@dataclass(slots=True)
class _Steps:
    times: StepTimes
    by_worker: dict[str, deque[Step]] = field(default_factory=dict)


class StepOutlier(Rule, frozen=True, kw_only=True):
    """Fires when many steps take much longer or shorter than the others.

    Why it matters:
        Steps that take many times the usual time show where time is lost: checkpoints, garbage collection,
        evaluation, other jobs on the machine, a slow disk.
    How it decides:
        Fires if more than ``n_outliers`` of the last 10,000 steps of a worker have ``|time - mean| > stddev *
        standard deviation`` (of the population). The finding names the phase whose time in the outliers exceeds the
        mean step most.
    Not a number:
        Only times are evaluated.
    Blind spots:
        Outliers increase the standard deviation: of n steps at most n / (stddev² + 1) can be outliers. In very fast
        trainings only one step in N is written and counts as N steps, but long steps are always written.
    Args:
        stddev: Standard deviations, > 0.
        mode: train, eval or predict; none: train. global: all modes.
        n_outliers: Steps, >= 0.
    Source:
        SageMaker developer guide, "StepOutlier" (``smdebug_rulesconfig`` 1.0.1 has stddev 3).
    """

    severity: ClassVar[Severity] = "advice"

    stddev: PositiveFloat = 5.0
    mode: Literal["train", "eval", "predict", "global"] | None = None
    n_outliers: NonNegativeInt = 10

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, phases=(*PHASES, "step", TRAINING))

    def remember(self, memory: Any, window: Window) -> _Steps:
        steps: _Steps = memory or _Steps(StepTimes(None if self.mode == "global" else self.mode or "train"))
        begun = workers_that_begin(window) & steps.by_worker.keys()
        steps.by_worker = {worker: known for worker, known in steps.by_worker.items() if worker not in begun}
        for step in steps.times.add(window.spans()):
            if step.worker in begun:
                continue
            steps.by_worker.setdefault(step.worker, deque(maxlen=_MAX_STEPS)).append(step)
        return steps

    def evaluate(self, window: Window) -> Verdict:
        steps: _Steps = window.memory
        judged = {
            worker: worker_steps
            for worker, worker_steps in sorted(steps.by_worker.items())
            if len(worker_steps) >= _MIN_STEPS
        }
        workers = [
            (worker, *self._outliers(list(worker_steps)), list(worker_steps)) for worker, worker_steps in judged.items()
        ]
        slow = [worker for worker in workers if sum(step.weight for step in worker[1]) > self.n_outliers]
        if slow:
            return self._fired(slow)
        return Clear() if judged else Undecided("no step was timed")

    def _outliers(self, known: list[Step]) -> tuple[list[Step], float, float]:
        """Return the steps too far from the mean, the mean, and the standard deviation."""
        import numpy as np

        times = np.array([step.duration_ns for step in known], np.float64)
        weights = np.array([step.weight for step in known], np.float64)
        mean = float(np.average(times, weights=weights))
        deviation = float(np.sqrt(np.average((times - mean) ** 2, weights=weights)))
        is_beyond = (np.abs(times - mean) > self.stddev * deviation).tolist()
        return [step for step, beyond in zip(known, is_beyond, strict=True) if beyond], mean, deviation

    def _fired(self, workers: list[tuple[str, list[Step], float, float, list[Step]]]) -> Fired:
        worker, outliers, mean, deviation, known = max(workers, key=lambda worker: (len(worker[1]), worker[0]))
        worst = max(outliers, key=lambda step: (abs(step.duration_ns - mean), -step.step))
        phase = slow_phase(outliers, known)
        return fired(
            f"{sum(step.weight for step in outliers):,} of {sum(step.weight for step in known):,} steps are more than "
            f"{exact(self.stddev)} standard deviations from the mean of {significant(mean / 1e6)} ms, "
            f"mostly in {phase}; step "
            f"{worst.step:,} took {significant(worst.duration_ns / 1e6)} ms",
            *(worker[0] for worker in workers),
            advice=_ADVICE,
            evidence={
                "outliers": len(outliers),
                "mean_ms": mean / 1e6,
                "deviation_ms": deviation / 1e6,
                "phase": phase,
                "steps": [step.step for step in outliers[-20:]],
                "worst_ms": worst.duration_ns / 1e6,
            },
            noun="worker",
            worker=worker,
        )
