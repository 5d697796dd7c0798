"""Custom rules in smdebug's interface, evaluated on a trial that smdebug wrote."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from leadline.compat.smdebug import create_trial
from leadline.compat.smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet, SMDebugNotImplementedError
from leadline.compat.smdebug.rules import Rule, invoke_rule
from leadline.compat.smdebug.trials import Trial

DATA = Path(__file__).parents[2] / "data" / "smdebug"


class LargeGradient(Rule):
    """Fires where a gradient has a large mean of absolute values; as in smdebug, parameters may be texts."""

    def __init__(self, base_trial: Trial, threshold: str = "10") -> None:
        super().__init__(base_trial)
        self.threshold = float(threshold)
        self.steps: list[int] = []

    def set_required_tensors(self, step: int) -> None:
        self.req_tensors.add("^gradient/.*bias$", [step], should_match_regex=True)

    def invoke_at_step(self, step: int) -> bool:
        self.steps.append(step)
        tensors = self.req_tensors.get()
        assert [tensor.name for tensor in tensors] == self.base_trial.tensor_names(regex="^gradient/.*bias$")
        return any(tensor.reduction_value(step, "mean", abs=True) > self.threshold for tensor in tensors)


def test_every_step_with_the_required_tensors_is_evaluated() -> None:
    rule = LargeGradient(create_trial(DATA / "pt1"))
    with pytest.raises(NoMoreData):
        invoke_rule(rule)
    assert rule.steps == [0, 2, 6, 8]  # step 4 is an eval step, without gradients


def test_condition_is_met() -> None:
    expected = json.loads((DATA / "pt1.expected.json").read_text())["tensors"]
    values = [expected[f"gradient/Net_{layer}.bias"]["values"] for layer in ("conv1", "fc")]  # with all elements
    largest = {
        step: max(float(np.abs(of_tensor[str(step)]["first"]).mean()) for of_tensor in values) for step in (0, 2, 6, 8)
    }
    threshold = sorted(largest.values())[1]
    first, second = (step for step, value in largest.items() if value > threshold * 1.0001)
    rule = LargeGradient(create_trial(DATA / "pt1"), threshold=str(threshold * 1.0001))
    with pytest.raises(RuleEvaluationConditionMet, match=f"LargeGradient is met at step {first}$") as met:
        invoke_rule(rule, raise_eval_cond=True)
    assert (met.value.rule_name, met.value.step) == ("LargeGradient", first)
    with pytest.raises(RuleEvaluationConditionMet, match=f"at step {second}$"):
        invoke_rule(rule, start_step=first + 1, raise_eval_cond=True)
    invoke_rule(rule, end_step=9)
    assert rule.steps[-4:] == [0, 2, 6, 8]


def test_actions_are_refused() -> None:
    class Other(LargeGradient):
        def __init__(self, trial: Trial) -> None:
            Rule.__init__(self, trial, '{"name": "stoptraining"}')

    with pytest.raises(SMDebugNotImplementedError, match="leadline run --on"):
        Other(create_trial(DATA / "pt1"))
