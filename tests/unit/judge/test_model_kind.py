"""The kind of model of a run, and the verdicts of network rules on boosted trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tree_scenarios import importances, loss

from leadline.judge.evaluator import Evaluator
from leadline.records.series import TensorInfo
from leadline.rules.registry import DEFAULT, find_rule
from leadline.testing.runs import START_NS, Capture, Part, RunWriter

WHY = "boosted trees have no gradients, weights or layers"
OF_LOOP = "boosted trees have no backward passes and optimizers"
OF_NETWORKS = {
    "exploding_gradient": WHY,
    "no_gradient": WHY,
    "no_learning": WHY,
    "unused_parameter": WHY,
    "replica_divergence": WHY,
    "duplicate_batches": WHY,
    "unscaled_input": WHY,
    "loss_input": OF_LOOP,
    "loss_choice": OF_LOOP,
    "ignored_labels": OF_LOOP,
    "consecutive_linear": OF_LOOP,
    "missing_zero_grad": OF_LOOP,
    "lost_progress": OF_LOOP,
    "resume_changed": "the run was not resumed, and no optimizer's state loaded",
    "identical_units": OF_LOOP,
    "eval_in_train_mode": OF_LOOP,
    "broken_averages": OF_LOOP,
    "recompilation": OF_LOOP,
    "learning_rate": WHY,
    "memory_growth": OF_LOOP,
    "diverging_loss": "boosted trees start from a constant prediction",
    "loss_at_start": "boosted trees start from a constant prediction",
    "generalization_gap": "boosted trees fit their training data better the more of them there are",
    "skipped_steps": "boosted trees have no gradient scaler",
    "shared_samples": WHY,
    "validation_mismatch": WHY,
    "entropy_collapse": "no entropy of the policy was logged",
    "rising_entropy": "no entropy of the policy was logged",
    "reward_fall": "no mean reward of a completion or an episode was logged",
    "truncated_completions": "no share of the completions that end at the maximum length was logged",
    "kl_divergence": "no divergence of the policy from a reference was logged",
    "policy_mismatch": "no mean absolute difference of log-probabilities was logged",
    "broken_metric": "no loss that is minimized or norm of the gradient was logged",
    "dead_groups": "no share of the groups whose rewards are all equal or standard deviation of the rewards was logged",
}


def states(folder: Path, parts: list[Part], *, in_pieces: bool = False) -> dict[str, tuple[str, str]]:
    """Return the verdict of each default rule, and why there is no better one."""
    writer = RunWriter(folder / "run")
    judging = Evaluator(writer.path, [(each, find_rule(each)()) for each in DEFAULT], started_ns=START_NS)
    found: dict[str, dict[str, Any]] = {}
    for _ in writer.grow(parts):
        if in_pieces:
            found |= judging.advance().rules
    writer.end()
    found |= judging.advance(is_over=True).rules
    return {name: (state["verdict"], state["why"]) for name, state in found.items()}


def whys(folder: Path, parts: list[Part]) -> dict[str, str]:
    return {name: why for name, (_, why) in states(folder, parts).items()}


@pytest.mark.parametrize("in_pieces", [False, True])
def test_network_rules_are_not_applicable_to_boosted_trees(tmp_path: Path, in_pieces: bool) -> None:
    parts = [loss(step, train=1.0, holdout=1.0) for step in range(30)]
    found = states(tmp_path, parts, in_pieces=in_pieces)
    assert {name: why for name, (verdict, why) in found.items() if verdict == "not_applicable"} == OF_NETWORKS
    assert {name for name, (verdict, _) in found.items() if verdict == "clear"} >= {
        "exploding_tensor",
        "nonfinite_origin",
        "loss_spike",
        "stalled_training",
    }


def test_tree_rules_are_not_applicable_to_networks(tmp_path: Path) -> None:
    step = {"loss": {"value": 1.0}, "a.weight": {"l2": 1.0}}
    path = RunWriter(tmp_path / "run").write_all([Capture(0, step)]).end().path
    rules = [(each, find_rule(each)()) for each in ("tree_depth", "create_xgboost_report", "class_imbalance")]
    found = Evaluator(path, rules, started_ns=START_NS).advance(is_over=True).rules
    expected = {
        "tree_depth": "not_applicable",
        "create_xgboost_report": "not_applicable",
        "class_imbalance": "undecided",
    }
    assert {name: state["verdict"] for name, state in found.items()} == expected
    assert found["tree_depth"]["why"] == "no boosted trees are trained"


def test_importances_alone_identify_boosted_trees(tmp_path: Path) -> None:
    assert WHY in whys(tmp_path, [importances(0, {"a": 1.0})]).values()


def test_labels_that_are_not_classes_are_named_as_the_reason(tmp_path: Path) -> None:
    path = RunWriter(tmp_path / "run").write_all([loss(0, train=1.0)]).end().path
    rules = [(each, find_rule(each)()) for each in ("class_imbalance", "confusion", "create_xgboost_report")]
    said = Evaluator(path, rules, started_ns=START_NS).advance(is_over=True).rules
    assert {said[each]["why"] for each in ("class_imbalance", "confusion")} == {
        "no class labels were captured; those of a regression or ranking are not classes"
    }
    assert said["create_xgboost_report"]["why"] == ""


def test_with_a_network_as_well_the_missing_data_is_named(tmp_path: Path) -> None:
    layer = Capture(0, {"a": {"abs_max": 1.0}}, infos={"a": TensorInfo("a", ("layers",), (2,))})
    said = whys(tmp_path, [loss(0, train=1.0), layer])
    assert WHY not in said.values()
    assert said["no_learning"] == "no weights were captured"
    assert WHY not in whys(tmp_path / "plain", [Capture(0, {"loss": {"value": 1.0}})]).values()
