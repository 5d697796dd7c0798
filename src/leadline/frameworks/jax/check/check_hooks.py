"""The steps that are checked, as the steps of JAX begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from leadline.frameworks.jax.step_calls import JittedCall
from leadline.frameworks.pure_check.counted_checks import CountedChecks
from leadline.frameworks.pure_check.pure_step import PureStep
from leadline.instrumentation.check import StepChecks
from leadline.instrumentation.timeline.step_timeline import StepTimeline


class JaxChecks(CountedChecks):
    """Counts the computations of gradients, and checks those that are to be checked before they are made.

    Args:
        checks: What is to be checked, and takes the results.
        jit: The original ``jax.jit``.
    """

    eager: ClassVar[str] = (
        "the step is computed outside of jax.jit, so that it cannot be computed once more; put it into a jitted "
        "function"
    )

    def __init__(self, checks: StepChecks, jit: Callable[..., Any]) -> None:
        super().__init__(checks)
        self._jit = jit

    def begin(self, call: JittedCall, timeline: StepTimeline) -> None:
        """Check the step of a call that is about to be made, if it is to be checked."""
        self._timed(timeline, lambda: self._begin(call))

    def _begin(self, call: JittedCall) -> None:
        if call.facts.is_separate_update or not self._counts():
            return
        why = call.facts.refusal
        if call.steps > 1:
            why = f"a call makes {call.steps} steps, which are not told apart"
        if why:
            self._checks.refuse(why, self._step)
            return

        def make(deadline: float) -> PureStep:
            from leadline.frameworks.jax.check.program_step import ProgramStep

            return ProgramStep(call, self._jit, number=self._step, deadline=deadline)

        self._check(make)
