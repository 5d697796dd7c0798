"""The action tracker."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from leadline.actions.action import Action, ActionContext, Outcome, Place
from leadline.records.notification import Notification
from leadline.records.request import Track


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
    wants_snapshot: ClassVar[bool] = False

    to: Literal["every", "wandb", "mlflow", "tensorboard"] = "every"

    def describe(self, context: ActionContext) -> str:
        notification = context.notification
        return _reason_to_skip(notification) or f"would log leadline/{notification.rule} = {_value(notification):g}"

    def run(self, context: ActionContext) -> Outcome:
        from leadline.store import control

        notification, reason = context.notification, _reason_to_skip(context.notification)
        if reason:
            return Outcome(reason, is_nothing=True)
        rule, value = notification.rule or "", _value(notification)
        request = Track(
            id=control.new_request_id(),
            reason=f"{rule}: {notification.status}",
            by=f"rule:{rule}",
            time_ns=context.now_ns,
            rule=rule,
            value=value,
            status=notification.status,
            step=_step(notification),
            message=notification.message,
            to=self.to,
        )
        control.write_request(context.run, request)
        return Outcome(f"asked to log {value:g}", request=request.id)


def _reason_to_skip(notification: Notification) -> str:
    if notification.rule is None:
        return "nothing to log: only rules are logged"
    is_evaluated = (
        notification.kind != "rule_status" or notification.verdict is not None or notification.status == "Error"
    )
    return "" if is_evaluated else "nothing to log: not evaluated yet"


def _step(notification: Notification) -> int | None:
    """Return the step from which on the value holds: a finding closes after the step at which it was last seen."""
    return (
        notification.step + 1 if notification.kind == "closed" and notification.step is not None else notification.step
    )


def _value(notification: Notification) -> float:
    """Return 1, 0 or NaN for the rule of a notification."""
    if notification.kind in ("finding", "closed"):
        return 1.0 if notification.kind == "finding" else 0.0
    return next((state.value for state in notification.rules if state.name == notification.rule), math.nan)
