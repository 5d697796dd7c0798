"""The rule plan: errors before the training starts, and the captures that rules need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leadline.errors import ConfigurationError, RunNotFoundError, UnknownNameError
from leadline.judge.rule_plan import check_runs, named, plan, resolve_rules
from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.metric_roles import role_collection
from leadline.records.plan import CaptureItem, Schedule, may_select_module_tensors
from leadline.rules import Clear, Needs, Rule, TensorNeed, Verdict, Window
from leadline.testing.runs import RunWriter


def spec(name: str, alias: str = "", **parameters: object) -> RuleSpec:
    return RuleSpec(alias or name, name, parameters)


def planned(*specs: RuleSpec, actions: tuple[ActionSpec, ...] = ()) -> tuple[CaptureItem, ...]:
    return plan(resolve_rules(specs), actions)


def test_a_need_without_an_interval_inherits_it() -> None:
    (item,) = planned(spec("vanishing_gradient"))
    assert item == CaptureItem(
        "gradients", None, ("abs_mean",), False, Schedule(), ("train",), "rule:vanishing_gradient"
    )


class OnRewards(Rule, frozen=True, kw_only=True):
    """A rule that needs what has a role."""

    def needs(self) -> Needs:
        return Needs((TensorNeed(role_collection("reward"), statistics=("value",), every=5),))

    def evaluate(self, window: Window) -> Verdict:
        return Clear()


def test_what_has_a_role_is_captured_as_a_logged_number() -> None:
    items = plan([(spec("on_rewards"), OnRewards())], ())
    assert [(item.collection, item.schedule.every) for item in items] == [("metrics", 5), ("scalars", 5)]


def requests(items: tuple[CaptureItem, ...]) -> set[tuple[str | None, tuple[str, ...], int | None]]:
    return {(item.collection, item.statistics, item.schedule.every) for item in items}


def test_a_rule_that_stops_the_training_sees_scalars_and_counts_of_every_step() -> None:
    stop = ActionSpec("*", "stop_training")
    items = planned(spec("exploding_gradient"), spec("vanishing_gradient"), actions=(stop,))
    assert requests(items) == {
        ("gradient_norms", ("value",), None),
        ("gradient_norms", ("value",), 1),
        ("gradients", ("abs_mean",), None),
        ("losses", ("value",), None),
        ("losses", ("value",), 1),
    }
    counts = requests(planned(spec("exploding_tensor"), actions=(ActionSpec("exploding_tensor", "StopTraining"),)))
    ((collection, statistics, every),) = requests(planned(spec("exploding_tensor")))
    assert counts == {(collection, statistics, every), ("all", statistics, 1)}
    other = ActionSpec("other", "stop_training")
    assert requests(planned(spec("exploding_gradient"), actions=(other,))) == {
        ("gradient_norms", ("value",), None),
        ("losses", ("value",), None),
    }


@pytest.mark.parametrize("action", ["webhook", "notify", "run_command", "publish_metric"])
def test_an_action_that_does_not_affect_the_training_changes_nothing(action: str) -> None:
    specs = (spec("exploding_tensor"), spec("exploding_gradient"))
    assert planned(*specs, actions=(ActionSpec("*", action),)) == planned(*specs)


def test_what_rules_need_at_an_interval_of_their_own_is_captured_densely_at_first() -> None:
    (item,) = planned(spec("output_collapse"))
    assert item.schedule == Schedule(every=50, steps=(0, 1, 2, 3, 4, 5, 10, 20, 50, 100))


def test_an_action_causes_no_forward_hooks_at_every_step() -> None:
    items = planned(spec("nonfinite_origin"), actions=(ActionSpec("*", "stop_training"),))
    of_modules = {item.schedule.every for item in items if may_select_module_tensors(item)}
    assert of_modules == {None}
    assert {item.schedule.every for item in items} == {None, 1}


def test_needs_with_an_interval_keep_it() -> None:
    items = planned(spec("weight_update_ratio", num_steps="20"), actions=(ActionSpec("*", "stop_training"),))
    assert {(item.collection, item.raw, item.schedule.every) for item in items} == {
        ("weights", True, 20),
        ("biases", True, 20),
    }


def test_a_time_based_rule_captures_nothing() -> None:
    assert planned(spec("stalled_training")) == ()


def test_specifications_are_recorded_as_parsed() -> None:
    ((recorded, rule),) = resolve_rules([spec("VanishingGradient", "v", threshold="1e-6")])
    assert recorded == RuleSpec("v", "vanishing_gradient", {"threshold": 1e-6})
    assert rule.threshold == 1e-6
    ((recorded, _),) = resolve_rules([spec("exploding_tensor", collection_names="losses,gradients")])
    assert recorded.parameters == {"collection_names": ["losses", "gradients"]}
    assert resolve_rules([recorded])[0][0] == recorded


@pytest.mark.parametrize(
    ("rule", "alias"),
    [
        ("vanishing_gradient", "vanishing_gradient"),
        ("VanishingGradient", "vanishing_gradient"),
        ("WeightUpdate", "weight_update_ratio"),
        ("my_rules.py:LossAbove", "loss_above"),
        ("package.rules:LossAbove", "loss_above"),
    ],
)
def test_the_name_of_a_rule_without_an_alias(rule: str, alias: str) -> None:
    assert named(RuleSpec("", rule)).alias == alias
    assert named(RuleSpec("mine", rule)).alias == "mine"


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([spec("vanishing_gradeint")], "did you mean 'vanishing_gradient'"),
        ([spec("vanishing_gradient", treshold=1)], "did you mean 'threshold'"),
        (
            [spec("vanishing_gradient", threshold="low")],
            "vanishing_gradient: threshold must be a number > 0, not 'low'",
        ),
        ([spec("vanishing_gradient"), spec("vanishing_gradient")], "two rules are named"),
        ([spec("vanishing_gradient", "../up")], "not a valid name of a rule"),
    ],
)
def test_errors_are_raised_before_the_training(specs: list[RuleSpec], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolve_rules(specs)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "needs.. must return Needs, not int"),
        ("return Needs()", "asks for nothing"),
        ("return Needs.of('losses', 'vale')", "no statistic named 'vale'; did you mean 'value'"),
        ("raise ValueError('no way')", "no way"),
    ],
)
def test_invalid_needs_are_refused(tmp_path: Path, body: str, message: str) -> None:
    text = f"from leadline.rules import Needs, Rule\nclass Mine(Rule):\n    def needs(self):\n        {body}\n"
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        resolve_rules([RuleSpec("mine", "mine.py:Mine", folder=str(tmp_path))])


def test_an_unknown_name_error_has_both_parents() -> None:
    with pytest.raises(UnknownNameError):
        resolve_rules([spec("nothing_like_it")])


GIVEN = {
    "all_zero": {"collection_names": "gradients"},
    "similar_across_runs": {"other_trials": "base"},
    "tensor_variance": {"tensor_regex": ".", "max_threshold": 1.0},
    "unchanged_tensor": {"collection_names": "weights"},
}
"""Parameters of rules that need some."""


def test_planning_loads_nothing_heavy() -> None:
    program = (
        "import sys; from leadline.judge.rule_plan import plan, resolve_rules; "
        "from leadline.records.manifest import RuleSpec; "
        f"from leadline.rules.registry import BUILT_IN; given = {GIVEN!r}; "
        "plan(resolve_rules([RuleSpec(n, n, given.get(n, {})) for n in BUILT_IN]), ()); "
        "print(sorted({'numpy', 'pyarrow', 'duckdb', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_runs_to_compare_with_must_exist(tmp_path: Path) -> None:
    RunWriter(tmp_path / "baseline").end()
    given = {"other_trials": "baseline"}
    check_runs(resolve_rules([RuleSpec("a", "similar_across_runs", given)]), str(tmp_path))
    with pytest.raises(RunNotFoundError, match="did you mean 'baseline'"):
        check_runs(resolve_rules([RuleSpec("a", "similar_across_runs", {"other_trials": "basline"})]), str(tmp_path))
