"""The action tracker."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from leadline.actions.action import Action, ActionContext, Outcome, Place
from leadline.records.notification import Notification, RuleState
from leadline.records.request import Request


class Tracker(Action, frozen=True, kw_only=True):
    """Logs the state of a rule to the script's own active wandb, MLflow or TensorBoard run, next to its losses.

    The name is `leadline/<rule>`; the value is 1: a finding is open, 0: clear, NaN: undecided or failed.

    The training process logs it in a separate thread; the rows, steps and values of the script are not affected.
    wandb: the value is in the summary of the run at once, and in its history with the next row that the script logs;
    of two changes between two rows the later one. MLflow: a metric at the step of the finding, logged by a separate
    client. TensorBoard: a scalar at that step, in the event file of the script's oldest open writer. A finding closes
    after the step at which it was last seen.
    If wandb is configured to follow TensorBoard (`sync_tensorboard`), only wandb is used.
    A library that the script has not imported is not imported. If several processes train, each logs to its own runs.
    What happens at the end of the run, when no process is training any more, is not logged.

    Args:
        to: Only `wandb`, `mlflow` or `tensorboard`; `every`: all that are active.
    """

    place: ClassVar[Place] = "worker"
    target: ClassVar[str | None] = "to"
    statuses: ClassVar[tuple[str, ...]] = ("*",)

    to: Literal["every", "wandb", "mlflow", "tensorboard"] = "every"

    def describe(self, context: ActionContext) -> str:
        notice = context.notice
        return _reason_to_skip(notice) or f"would log leadline/{notice.rule} = {_value(notice):g}"

    def run(self, context: ActionContext) -> Outcome:
        from leadline.store import control

        notice, reason = context.notice, _reason_to_skip(context.notice)
        if reason:
            return Outcome(reason, is_nothing=True)
        rule, value = notice.rule, _value(notice)
        parameters = {
            "rule": rule,
            "value": value,
            "status": notice.status,
            "step": _step(notice),
            "message": notice.message,
            "to": self.to,
        }
        request = Request(
            id=control.new_request_id(),
            kind="track",
            reason=f"{rule}: {notice.status}",
            by=f"rule:{rule}",
            time_ns=context.now_ns,
            parameters=parameters,
        )
        control.write_request(context.run, request)
        return Outcome(f"asked to log {value:g}", request=request.id)


def _reason_to_skip(notice: Notification) -> str:
    if notice.rule is None:
        return "nothing to log: only rules are logged"
    is_evaluated = notice.kind != "rule_status" or notice.verdict is not None or notice.status == "Error"
    return "" if is_evaluated else "nothing to log: not evaluated yet"


def _step(notice: Notification) -> int | None:
    """Return the step from which on the value holds: a finding closes after the step at which it was last seen."""
    return notice.step + 1 if notice.kind == "closed" and notice.step is not None else notice.step


def _value(notice: Notification) -> float:
    """Return 1, 0 or NaN for the rule of a notification."""
    if notice.kind in ("finding", "closed"):
        return 1.0 if notice.kind == "finding" else 0.0
    return next((_of(state) for state in notice.rules if state.name == notice.rule), math.nan)


def _of(state: RuleState) -> float:
    if state.status == "Error" or state.verdict not in ("clear", "fired"):
        return math.nan
    return 1.0 if state.is_open else 0.0
