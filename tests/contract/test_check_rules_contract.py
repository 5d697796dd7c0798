"""Contract tests of the rules on the probes of ``leadline check``."""

from __future__ import annotations

from dataclasses import asdict

from rule_scenarios import captured

from leadline.records.check_result import PROBES, CheckResult, Outcome
from leadline.rules.checks.gradient_of_parts import GradientOfParts
from leadline.rules.checks.ignored_input import IgnoredInput
from leadline.rules.checks.incomplete_state import IncompleteState
from leadline.rules.checks.look_ahead import LookAhead
from leadline.rules.checks.loss_direction import LossDirection
from leadline.rules.checks.mixed_samples import MixedSamples
from leadline.rules.checks.mode_mismatch import ModeMismatch
from leadline.rules.checks.model_inputs import ModelInputs
from leadline.rules.checks.padding_influence import PaddingInfluence
from leadline.rules.checks.unlearnable_batch import UnlearnableBatch
from leadline.rules.checks.unused_inputs import UnusedInputs
from leadline.rules.checks.update_size import UpdateSize
from leadline.testing.contracts import RuleContract
from leadline.testing.runs import START_NS, Part, WorkerFacts


def checked(outcome: Outcome) -> tuple[Part, ...]:
    """Return a run whose copy was checked with all probes at step 2."""
    advice = "the data set looked at; usually the labels are shifted" if outcome == "failed" else ""
    results = (CheckResult(probe, outcome, "seen", 2, advice, {"share": 0.5}, 0.1, START_NS) for probe in PROBES)
    beats = (captured(step, {}) for step in range(12))
    return (WorkerFacts({"checks": {result.probe: asdict(result) for result in results}}), *beats)


class _CheckRuleContract(RuleContract):
    fires_on = checked("failed")
    silent_on = checked("passed")

    def test_is_not_applicable_where_its_probe_is_not(self) -> None:
        state, events = self.judge(checked("not applicable"))
        assert (state["verdict"], state["why"], events) == ("not_applicable", "seen", [])

    def test_is_the_rule_of_a_probe(self) -> None:
        assert self.rule().name in PROBES


class TestMixedSamples(_CheckRuleContract):
    rule = MixedSamples


class TestLookAhead(_CheckRuleContract):
    rule = LookAhead


class TestPaddingInfluence(_CheckRuleContract):
    rule = PaddingInfluence


class TestUnusedInputs(_CheckRuleContract):
    rule = UnusedInputs


class TestLossDirection(_CheckRuleContract):
    rule = LossDirection


class TestUnlearnableBatch(_CheckRuleContract):
    rule = UnlearnableBatch


class TestUpdateSize(_CheckRuleContract):
    rule = UpdateSize


class TestGradientOfParts(_CheckRuleContract):
    rule = GradientOfParts


class TestModeMismatch(_CheckRuleContract):
    rule = ModeMismatch


class TestIncompleteState(_CheckRuleContract):
    rule = IncompleteState


class TestIgnoredInput(_CheckRuleContract):
    rule = IgnoredInput


class TestModelInputs(_CheckRuleContract):
    rule = ModelInputs
