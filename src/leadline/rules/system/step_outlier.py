"""The rule step_outlier."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from leadline.records.names import PHASES
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import SCAN_SECONDS
from leadline.rules.system.step_times import Step, StepTimes, slow_phase

if TYPE_CHECKING:
    from leadline.reader.window import Window

_MOST_STEPS: Final = 10_000
_FEWEST_STEPS: Final = 3


@dataclass(slots=True)
class _Steps:
    times: StepTimes
    by_worker: dict[str, deque[Step]] = field(default_factory=dict)


class StepOutlier(Rule, frozen=True, kw_only=True):
    """Fires when many steps take far longer or shorter than the others.

    Why it matters:
        Steps that take many times as long as usual are where time is lost to something else: checkpoints, garbage
        collection, evaluation, a neighbour on the machine, a slow disk.
    How it decides:
        Of the last 10,000 steps of a worker more than ``n_outliers`` have ``|time - mean| > stddev * standard
        deviation`` (that of the population). The finding names the phase that the outliers spend most more on than the
        mean step.
    Not a number:
        Looks at no numbers but times.
    Blind spots:
        Outliers widen the deviation that they are measured by: of n steps at most n / (stddev² + 1) can be beyond it.
        Of very fast trainings one step in so many is written and counts for so many, long ones are always written.
    Args:
        stddev: Standard deviations, > 0.
        mode: train, eval, predict; none: train. global: all.
        n_outliers: Steps, >= 0.
    Source:
        SageMaker developer guide, "StepOutlier" (``smdebug_rulesconfig`` 1.0.1 has stddev 3).
    """

    stddev: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    mode: Literal["train", "eval", "predict", "global"] | None = None
    n_outliers: Annotated[int, msgspec.Meta(ge=0)] = 10

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, phases=(*PHASES, "step"))

    def remember(self, memory: Any, window: Window) -> _Steps:
        steps: _Steps = memory or _Steps(StepTimes(None if self.mode == "global" else self.mode or "train"))
        for each in steps.times.add(window.spans()):
            steps.by_worker.setdefault(each.worker, deque(maxlen=_MOST_STEPS)).append(each)
        return steps

    def evaluate(self, window: Window) -> Verdict:
        steps: _Steps = window.memory
        judged = {worker: each for worker, each in sorted(steps.by_worker.items()) if len(each) >= _FEWEST_STEPS}
        found = [(worker, *self._outliers(list(each)), list(each)) for worker, each in judged.items()]
        found = [each for each in found if sum(step.weight for step in each[1]) > self.n_outliers]
        if found:
            return self._fired(found)
        return Clear() if judged else Undecided("no step was timed")

    def _outliers(self, known: list[Step]) -> tuple[list[Step], float, float]:
        """Those too far from the mean; the mean, and the standard deviation."""
        import numpy as np

        times = np.array([each.duration_ns for each in known], np.float64)
        weights = np.array([each.weight for each in known], np.float64)
        mean = float(np.average(times, weights=weights))
        deviation = float(np.sqrt(np.average((times - mean) ** 2, weights=weights)))
        is_beyond = (np.abs(times - mean) > self.stddev * deviation).tolist()
        return [each for each, beyond in zip(known, is_beyond, strict=True) if beyond], mean, deviation

    def _fired(self, found: list[tuple[str, list[Step], float, float, list[Step]]]) -> Fired:
        worker, outliers, mean, deviation, known = max(found, key=lambda each: (len(each[1]), each[0]))
        worst = max(outliers, key=lambda each: (abs(each.duration_ns - mean), -each.step))
        phase = slow_phase(outliers, known)
        return Fired(
            f"{sum(each.weight for each in outliers):,} of {sum(each.weight for each in known):,} steps are more than "
            f"{self.stddev:g} standard deviations from the mean of {mean / 1e6:.3g} ms, most in {phase}; step "
            f"{worst.step:,} took {worst.duration_ns / 1e6:.3g} ms{and_more(len(found) - 1, 'worker')}",
            tensors=tuple(each[0] for each in found),
            evidence={
                "outliers": len(outliers),
                "mean_ms": mean / 1e6,
                "deviation_ms": deviation / 1e6,
                "phase": phase,
                "steps": [each.step for each in outliers[-20:]],
                "worst_ms": worst.duration_ns / 1e6,
            },
            suggestion="what the script does at these steps (checkpoints, evaluation, logging), or gc.freeze(); "
            "usually something is done every so many steps, or data come in bursts",
            worker=worker,
        )
