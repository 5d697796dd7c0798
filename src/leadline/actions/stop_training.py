"""The action stop_training."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Annotated, ClassVar, Final

import msgspec

from leadline.actions.action import Action, ActionContext, Outcome, Place, TrainingProgress
from leadline.records.request import Stop
from leadline.store import layout

_MARGIN_STEPS: Final = 2
MARGIN_SECONDS: Final = 0.5
STORE_MARGIN_SECONDS: Final = 15.0
"""Where workers learn of a request through an object store, and their progress is known through it."""
_FASTER: Final = 4.0
"""So many times as fast as on average may the latest steps of a worker be."""
_MAX_AGE_SECONDS: Final = 5.0
"""What is known of a running worker is not older; a greater difference is that of the clocks of two machines."""


class StopTraining(Action, frozen=True, kw_only=True):
    """Requests all workers to stop at the same step, and the agent to enforce it after a grace period.

    Args:
        grace: Seconds in which the job may end by itself before it gets signals, >= 0.
        let_script_finish: End only the loop of a trainer, by its own means, so that it saves and returns as ever:
            ``fit`` of Keras and of Lightning, ``train`` of Transformers and of what is built on it (TRL). The script
            continues with its next line, and its exit status is that of the run. Elsewhere the script ends as without
            this option.
    """

    place: ClassVar[Place] = "worker"
    wants_snapshot: ClassVar[bool] = False
    affects_training: ClassVar[bool] = True

    grace: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    let_script_finish: bool = False

    def describe(self, context: ActionContext) -> str:
        return f"would ask to stop at step {_train_step(context, _step(context))}"

    def run(self, context: ActionContext) -> Outcome:
        from leadline.store import control

        step, notification = _step(context), context.notification
        train_step = _train_step(context, step)
        by = f"rule:{notification.rule}" if notification.rule else "action"
        request = Stop(
            id=control.new_request_id(),
            step=step,
            reason=notification.message,
            by=by,
            time_ns=context.now_ns,
            grace_seconds=self.grace,
            let_script_finish=self.let_script_finish,
        )
        control.write_request(context.run, request)
        # one worker goes on until it has read the request: with short steps that is many steps later
        place = f"step {train_step:,}" if len(context.workers) > 1 else "the next step"
        return Outcome(f"stop requested at step {train_step}", train_step, request.id, f"stopping at {place}")


def _step(context: ActionContext) -> int:
    step = context.notification.global_step
    is_joint = os.path.exists(os.path.join(context.run, layout.OTHERS))
    return stop_step(
        context.workers,
        now_ns=context.now_ns,
        at_least=0 if step is None else step + 1,
        margin_seconds=STORE_MARGIN_SECONDS if is_joint else MARGIN_SECONDS,
    )


def _train_step(context: ActionContext, step: int) -> int:
    """Return the train step at a global step, unless another evaluation comes before it."""
    return step - max((worker.step - worker.train_step for worker in context.workers), default=0)


def stop_step(
    workers: Iterable[TrainingProgress], *, now_ns: int, at_least: int, margin_seconds: float = MARGIN_SECONDS
) -> int:
    """Return the first global step that no worker can have passed by the time that all have read the request.

    One worker stops at its next step boundary, so one step ahead is enough. Several workers must all stop at the same
    step, so it is ahead of the fastest by ``margin_seconds`` at its speed, and at least by two steps.
    """
    known = list(workers)
    if len(known) <= 1:
        return max([at_least, *(worker.step + 1 for worker in known)])
    return max(at_least, *(_expected(worker, now_ns, margin_seconds) for worker in known))


def _expected(worker: TrainingProgress, now_ns: int, margin_seconds: float) -> int:
    if worker.seconds_per_step <= 0:
        return worker.step + _MARGIN_STEPS
    age = min(max(0.0, (now_ns - worker.time_ns) / 1e9), _MAX_AGE_SECONDS)
    ahead = age + margin_seconds
    if worker.is_average:
        ahead = max(ahead, _FASTER * (age + MARGIN_SECONDS))
    return worker.step + max(_MARGIN_STEPS, math.ceil(ahead / worker.seconds_per_step) + 1)
