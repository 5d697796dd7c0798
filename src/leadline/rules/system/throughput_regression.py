"""The rule throughput_regression."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.records.names import PHASES
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.robust import median
from leadline.rules.rule import Rule
from leadline.rules.system.step_times import Step, StepTimes, slow_phase

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Course:
    """The steps of a worker."""

    latest: deque[Step]
    waiting: list[Step] = field(default_factory=list)
    """Those since the last whole window."""
    best: list[Step] = field(default_factory=list)
    best_ns: float = float("inf")
    """The lowest median of a whole window before the latest steps."""
    held: tuple[float, list[Step]] | None = None
    """The last whole window, which the latest steps may still overlap."""


@dataclass(slots=True)
class _Courses:
    times: StepTimes = field(default_factory=StepTimes)
    by_worker: dict[str, _Course] = field(default_factory=dict)


class ThroughputRegression(Rule, frozen=True, kw_only=True):
    """Fires when steps take longer than they took at best.

    Why it matters:
        A training that becomes slower as it goes has something that grows or wears: memory, fragments, a list that is
        walked, a hotter GPU, a neighbour on the machine.
    How it decides:
        ``median step time of the last window steps > factor * the lowest median`` of the windows before them; those
        lie one behind the other from the first step. Each worker by itself. The finding names the phase that grew
        most.
    Not a number:
        Looks at no numbers but times.
    Blind spots:
        Before two windows nothing is judged. Trainings whose steps are meant to become longer (growing sequences or
        batches) fire rightly and are none the worse.
    Args:
        factor: How many times the best is too much, > 1.
        window: Steps, >= 1.
    Source:
        Ours.
    """

    factor: Annotated[float, msgspec.Meta(gt=1)] = 1.3
    window: Annotated[int, msgspec.Meta(ge=1)] = 100

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, phases=(*PHASES, "step"))

    def remember(self, memory: Any, window: Window) -> _Courses:
        courses: _Courses = memory or _Courses()
        for each in courses.times.add(window.spans()):
            course = courses.by_worker.setdefault(each.worker, _Course(deque(maxlen=self.window)))
            self._take(course, each)
        return courses

    def _take(self, course: _Course, step: Step) -> None:
        """A whole window counts once the latest steps begin behind it."""
        course.latest.append(step)
        course.waiting.append(step)
        if len(course.waiting) < self.window:
            return
        if course.held is not None and course.held[0] < course.best_ns:
            course.best_ns, course.best = course.held
        course.held = (median([each.duration_ns for each in course.waiting]), course.waiting)
        course.waiting = []

    def evaluate(self, window: Window) -> Verdict:
        judged = {
            worker: (median([each.duration_ns for each in course.latest]), course)
            for worker, course in sorted(window.memory.by_worker.items())
            if course.best
        }
        slower = {worker: now / course.best_ns for worker, (now, course) in judged.items()}
        worker = max(slower, key=lambda each: (slower[each], each), default="")
        if not judged or slower[worker] <= self.factor:
            return Clear() if judged else Undecided(f"fewer than {2 * self.window:,} steps were timed")
        now, course = judged[worker]
        phase = slow_phase(list(course.latest), course.best)
        return Fired(
            f"the last {self.window:,} steps take {now / 1e6:.3g} ms, {slower[worker]:.2f} times the "
            f"{course.best_ns / 1e6:.3g} ms of the best before, most in {phase}",
            tensors=(worker,),
            evidence={
                "median_ms": now / 1e6,
                "best_ms": course.best_ns / 1e6,
                "times": slower[worker],
                "factor": self.factor,
                "phase": phase,
            },
            suggestion="what grows with the steps: lists of tensors, logs, caches, the length of the data; "
            "usually something kept from each step is walked at the next, or the machine is shared",
            worker=worker,
        )
