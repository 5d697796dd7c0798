"""The steps that are checked, as the steps of TensorFlow and Keras begin."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from leadline.frameworks.pure_check.counted_checks import CountedChecks
from leadline.frameworks.pure_check.pure_step import PureStep
from leadline.frameworks.tensorflow.replay import Replays, StepCall
from leadline.instrumentation.timeline.step_timeline import StepTimeline


class TensorFlowChecks(CountedChecks):
    """Counts the steps, and checks those that are to be checked before they are made."""

    eager: ClassVar[str] = (
        "the step is computed outside of a tf.function, so that it cannot be computed once more; put it into one, or "
        "leave run_eagerly out"
    )

    def begin(self, call: StepCall, replays: Replays, timeline: StepTimeline) -> None:
        """Check the step of a call that is about to be made, if it is to be checked."""
        self._timed(timeline, lambda: self._begin(call, replays))

    def _begin(self, call: StepCall, replays: Replays) -> None:
        if not self._counts():
            return
        why = call.facts.refusal
        optimizers = call.facts.optimizers
        if tf.distribute.has_strategy() and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            why = "the training is distributed: each replica has a part of the batch"
        elif len(optimizers) != 1:
            why = f"the step applies {len(optimizers)} optimizers of Keras; a step is repeated if it applies one"
        target = None if why else replays.target(call)
        if call.is_exhausted:
            self._step -= 1
            return
        if target is None:
            self._checks.refuse(why or call.facts.refusal or "its batch cannot be taken twice", self._step)
            return

        def make(deadline: float) -> PureStep:
            from leadline.frameworks.tensorflow.check.traced_step import TracedStep

            return TracedStep(
                target.function, target.args, target.kwargs, optimizers[0], number=self._step, deadline=deadline
            )

        self._check(make)
