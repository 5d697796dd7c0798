"""The action stop_training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec

from leadline.actions.action import Action, ActionContext, Outcome, Place, TrainingProgress
from leadline.records.request import Request

_MARGIN_STEPS = 2
_MARGIN_SECONDS = 0.5


class StopTraining(Action, frozen=True, kw_only=True):
    """Asks every worker to stop at one step, and the agent to enforce it after a grace time.

    Args:
        grace: Seconds that the job gets to end by itself before signals follow, >= 0.
    """

    place: ClassVar[Place] = "worker"

    grace: Annotated[float, msgspec.Meta(ge=0)] = 30.0

    def describe(self, occasion: ActionContext) -> str:
        return f"would ask to stop at step {_step(occasion)}"

    def run(self, occasion: ActionContext) -> Outcome:
        from leadline.store import control

        step, notice = _step(occasion), occasion.notice
        by = f"rule:{notice.rule}" if notice.rule else "action"
        request = Request(
            id=control.new_request_id(),
            kind="stop",
            step=step,
            reason=notice.message,
            by=by,
            time_ns=occasion.now_ns,
            grace_seconds=self.grace,
        )
        control.write_request(occasion.run, request)
        return Outcome(f"asked to stop at step {step}", step, request.id, f"stopping at step {step}")


def _step(occasion: ActionContext) -> int:
    seen = occasion.notice.step
    return stop_step(occasion.workers, now_ns=occasion.now_ns, at_least=0 if seen is None else seen + 1)


def stop_step(workers: Iterable[TrainingProgress], *, now_ns: int, at_least: int) -> int:
    """The first step that no worker can have passed by the time that all have read the request.

    One worker stops at its next boundary, so one step ahead is enough; several must all meet the step, so it lies
    ahead of the fastest by half a second at its pace, and two steps at least.
    """
    known = list(workers)
    if len(known) <= 1:
        return max([at_least, *(each.step + 1 for each in known)])
    return max(at_least, *(_expected(each, now_ns) for each in known))


def _expected(worker: TrainingProgress, now_ns: int) -> int:
    if worker.seconds_per_step <= 0:
        return worker.step + _MARGIN_STEPS
    ahead = max(0.0, (now_ns - worker.time_ns) / 1e9) + _MARGIN_SECONDS
    return worker.step + max(_MARGIN_STEPS, math.ceil(ahead / worker.seconds_per_step) + 1)
