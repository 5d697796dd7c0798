"""The action tracker."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from leadline.actions.action import Action, ActionContext, Outcome, Place
from leadline.records.notification import Notification, RuleState
from leadline.records.request import Request


class Tracker(Action, frozen=True, kw_only=True):
    """Logs where a rule stands into the script's own live wandb, MLflow or TensorBoard run, next to its losses.

    The name is `leadline/<rule>`, the value 1: an episode is open; 0: clear; NaN: undecided, or it failed.

    The training process does it, in a thread of its own; the script's rows, steps and numbers stay as they are.
    wandb: the run's summary has the value at once, its history with the next row that the script logs; of two changes
    between two rows the later one. MLflow: a metric at the step of the finding, by a client of its own. TensorBoard: a
    scalar at that step, in the event file of the script's oldest open writer. An episode is over behind the step at
    which it was last seen.
    Where wandb is told to follow TensorBoard (`sync_tensorboard`), only wandb is told.
    A library that the script has not imported is not imported. Where several processes train, each logs into what it
    has; what is told at the end of the run, when no process trains any more, is logged nowhere.

    Args:
        to: Only to `wandb`, `mlflow` or `tensorboard`; `every`: to all that are live.
    """

    place: ClassVar[Place] = "worker"
    target: ClassVar[str | None] = "to"
    statuses: ClassVar[tuple[str, ...]] = ("*",)

    to: Literal["every", "wandb", "mlflow", "tensorboard"] = "every"

    def describe(self, occasion: ActionContext) -> str:
        notice = occasion.notice
        return _why_nothing(notice) or f"would log leadline/{notice.rule} = {_value(notice):g}"

    def run(self, occasion: ActionContext) -> Outcome:
        from leadline.store import control

        notice, why_nothing = occasion.notice, _why_nothing(occasion.notice)
        if why_nothing:
            return Outcome(why_nothing, is_nothing=True)
        rule, value = notice.rule, _value(notice)
        asked = {
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
            time_ns=occasion.now_ns,
            parameters=asked,
        )
        control.write_request(occasion.run, request)
        return Outcome(f"asked to log {value:g}", request=request.id)


def _why_nothing(notice: Notification) -> str:
    if notice.rule is None:
        return "nothing to log: it is told of rules"
    is_judged = notice.kind != "rule_status" or notice.verdict is not None or notice.status == "Error"
    return "" if is_judged else "nothing to log: it is not judged yet"


def _step(notice: Notification) -> int | None:
    """Where the value begins to hold: an episode is over behind the step at which it was last seen."""
    return notice.step + 1 if notice.kind == "closed" and notice.step is not None else notice.step


def _value(notice: Notification) -> float:
    """1, 0 or NaN for the rule of a notice."""
    if notice.kind in ("finding", "closed"):
        return 1.0 if notice.kind == "finding" else 0.0
    return next((_of(each) for each in notice.rules if each.name == notice.rule), math.nan)


def _of(state: RuleState) -> float:
    if state.status == "Error" or state.verdict not in ("clear", "fired"):
        return math.nan
    return 1.0 if state.is_open else 0.0
