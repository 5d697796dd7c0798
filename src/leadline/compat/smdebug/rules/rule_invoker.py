"""Evaluation of a rule on its trial, in smdebug's interface."""

from __future__ import annotations

from leadline.compat.smdebug.exceptions import (
    RuleEvaluationConditionMet,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from leadline.compat.smdebug.rules.rule import Rule


def invoke_rule(
    rule_obj: Rule, start_step: int = 0, end_step: int | None = None, raise_eval_cond: bool = False
) -> None:
    """Evaluate a rule at each global step, until the trial has no more data.

    Args:
        end_step: The step before which it ends; None for no limit.
        raise_eval_cond: Raise when the condition is met, rather than continue.
    Raises:
        NoMoreData: The trial has ended; without ``end_step`` the evaluation always ends with it.
        RuleEvaluationConditionMet: The condition is met, with ``raise_eval_cond``.
    """
    step = start_step
    while end_step is None or step < end_step:
        try:
            rule_obj.invoke(step)
        except (TensorUnavailable, TensorUnavailableForStep, StepUnavailable) as error:
            rule_obj.logger.debug("%s", error)
        except RuleEvaluationConditionMet as met:
            if raise_eval_cond:
                raise
            rule_obj.logger.info("%s", met)
            if met.end_of_rule:
                return
        step += 1
