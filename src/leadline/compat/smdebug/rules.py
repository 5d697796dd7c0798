"""Rules in smdebug's interface: a class with ``invoke_at_step``, evaluated on a trial step by step."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from leadline.compat.smdebug.analysis.utils import no_refresh
from leadline.compat.smdebug.core.tensor import Tensor
from leadline.compat.smdebug.exceptions import (
    RuleEvaluationConditionMet,
    SMDebugNotImplementedError,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from leadline.compat.smdebug.trials import Trial


class RequiredTensors:
    """The tensors that a rule needs at a step, by trial."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self._steps: dict[Trial, dict[str, list[int]]] = {trial: {} for trial in trials}

    def add(
        self, name: str, steps: Iterable[int], trial: Trial | None = None, should_match_regex: bool = False
    ) -> None:
        """Require tensors at global steps.

        Args:
            trial: None for the base trial.
            should_match_regex: ``name`` is a regular expression that names must contain (``re.search``).
        """
        trial = trial or self._trials[0]
        names = [known for known in trial.tensor_names() if re.search(name, known)] if should_match_regex else [name]
        for one in names:
            known_steps = self._steps[trial].setdefault(one, [])
            known_steps += [step for step in steps if step not in known_steps]

    def get(self, trial: Trial | None = None) -> list[Tensor]:
        """Return the required tensors of a trial."""
        trial = trial or self._trials[0]
        return [trial.tensor(name) for name in self.get_names(trial)]

    def get_names(self, trial: Trial | None = None) -> list[str]:
        """Return the names of the required tensors of a trial."""
        return list(self._steps[trial or self._trials[0]])

    def get_tensor_steps(self, name: str, trial: Trial | None = None) -> list[int]:
        """Return the steps at which a tensor is required; none if it is not."""
        return list(self._steps[trial or self._trials[0]].get(name, ()))

    def clear(self) -> None:
        """Require nothing."""
        for names in self._steps.values():
            names.clear()

    def fetch(self) -> None:
        """Check that every required tensor was saved at its steps.

        Raises:
            TensorUnavailable, TensorUnavailableForStep, StepUnavailable: One was not.
        """
        for trial, names in self._steps.items():
            for name, steps in names.items():
                tensor = trial.tensor(name)
                for step in steps:
                    tensor.workers(step)


class Rule(ABC):
    """A check of a trial; derive from it and define ``invoke_at_step``.

    Args:
        base_trial: The trial that is checked.
        action_str: Must be empty: actions belong to ``leadline run --on``.
        other_trials: Trials that it is compared with.
    Raises:
        SMDebugNotImplementedError: An action is given.
    """

    def __init__(self, base_trial: Trial, action_str: str = "", other_trials: Sequence[Trial] | None = None) -> None:
        if action_str:
            raise SMDebugNotImplementedError(
                "actions of rules are not performed here; use leadline run --on RULE=ACTION"
            )
        self.base_trial, self.other_trials = base_trial, list(other_trials or ())
        self.trials = [base_trial, *self.other_trials]
        self.req_tensors = RequiredTensors(self.trials)
        self.rule_name = type(self).__name__
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
                raise RuleEvaluationConditionMet(self.rule_name, step)


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
