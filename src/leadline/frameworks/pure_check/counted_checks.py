"""The checks of steps that are counted as they begin, and checked before they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from leadline.frameworks.pure_check.probes import PureCheck
from leadline.frameworks.pure_check.pure_step import PureStep
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.timeline.step_timeline import StepTimeline


class CountedChecks:
    """Counts steps, and checks those that are to be checked before they are made; a framework says how.

    Args:
        checks: What is to be checked, and takes the results.

    Attributes:
        eager: Why a step outside of a compiled function cannot be checked.
    """

    eager: ClassVar[str]

    def __init__(self, checks: StepChecks) -> None:
        self._fact = checks.fact
        self._checks = checks
        self._step = -1

    def begin_eager(self) -> None:
        """Refuse to check a step outside of a compiled function."""
        if self._counts():
            self._fact.call(self._checks.refuse, self.eager, self._step)

    def _timed(self, timeline: StepTimeline, begin: Callable[[], None]) -> None:
        """Check a step, as part of the overhead."""
        begun = timeline.clock()
        self._fact.call(begin)
        timeline.add_own(timeline.clock() - begun)

    def _counts(self) -> bool:
        """Count a step; return whether it is to be checked."""
        self._step += 1
        return self._checks.checks_step(self._step)

    def _check(self, make: Callable[[float], PureStep]) -> None:
        self._checks.begin(PureCheck(make, self._step), self._step)
        self._checks.poll()
