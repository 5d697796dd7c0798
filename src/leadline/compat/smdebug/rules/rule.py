"""Rules in smdebug's interface: a class with ``invoke_at_step``, evaluated on a trial step by step."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypedDict

from leadline.compat.smdebug.analysis.utils import no_refresh
from leadline.compat.smdebug.exceptions import RuleEvaluationConditionMet
from leadline.compat.smdebug.rules.action import Actions
from leadline.compat.smdebug.rules.req_tensors import RequiredTensors
from leadline.compat.smdebug.trials import Trial
from leadline.records.json_object import JsonObject


class RuleReport(TypedDict):
    """What a rule may report of itself."""

    RuleTriggered: int
    Violations: int
    Details: JsonObject
    Datapoints: int
    RuleParameters: str


class Rule(ABC):
    """A check of a trial; derive from it and define ``invoke_at_step``.

    Args:
        base_trial: The trial that is checked.
        action_str: What is done when the condition is met, see ``Actions``; empty: nothing.
        other_trials: Trials that it is compared with.
    Raises:
        SMDebugValueError: ``action_str`` is no JSON.

    Attributes:
        report: What the rule may keep of its evaluation, for a report.
    """

    def __init__(self, base_trial: Trial, action_str: str = "", other_trials: Sequence[Trial] | None = None) -> None:
        self.base_trial, self.other_trials = base_trial, list(other_trials or ())
        self.trials = [base_trial, *self.other_trials]
        self.req_tensors = RequiredTensors(self.trials)
        self.rule_name = type(self).__name__
        self._actions = Actions(action_str, self.rule_name)
        self.report: RuleReport = {
            "RuleTriggered": 0,
            "Violations": 0,
            "Details": {},
            "Datapoints": 0,
            "RuleParameters": "",
        }
        self.logger = logging.getLogger("leadline.compat.smdebug")

    def set_required_tensors(self, step: int) -> None:
        """Require tensors of a global step with ``req_tensors.add``; by default none."""
        return

    @abstractmethod
    def invoke_at_step(self, step: int) -> bool:
        """Return whether the condition is met at a global step."""

    def invoke(self, step: int) -> None:
        """Evaluate a global step, and wait until it was saved.

        Raises:
            RuleEvaluationConditionMet: The condition is met.
            NoMoreData, StepUnavailable: See ``Trial.wait_for_steps``.
            TensorUnavailable, TensorUnavailableForStep: A required tensor was not saved.
        """
        self.base_trial.wait_for_steps([step])
        with no_refresh(self.trials):
            self.req_tensors.clear()
            self.set_required_tensors(step)
            self.req_tensors.fetch()
            if self.invoke_at_step(step):
                self._actions.invoke()
                raise RuleEvaluationConditionMet(self.rule_name, step)
