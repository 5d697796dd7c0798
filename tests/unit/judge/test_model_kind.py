"""The kind of model of a run, and the verdicts of network rules on boosted trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tree_scenarios import importances, loss

import leadline
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


@pytest.mark.parametrize(
    ("label", "not_applicable", "undecided"),
    [
        (
            "jax 0.10.2",
            {
                "consecutive_linear": "Leadline does not record the order of layers for JAX",
                "broken_averages": "Leadline does not record averages of normalizations for JAX",
                "recompilation": "Leadline does not record compiling again for JAX",
                "skipped_steps": "Leadline does not record hyperparameters for JAX",
            },
            {"eval_in_train_mode": "nothing was recorded of the modes of layers in this run"},
        ),
        (
            "tensorflow 2.21.0 (Keras 3.15.1)",
            {"recompilation": "Leadline does not record compiling again for TensorFlow"},
            {
                "consecutive_linear": "nothing was recorded of the order of layers in this run",
                "skipped_steps": "no hyperparameters were captured",
            },
        ),
        (
            "torch 2.13.0, jax 0.10.2",
            {},
            {"recompilation": "nothing was recorded of compiling again in this run"},
        ),
    ],
)
def test_what_a_framework_never_records_is_not_applicable_and_what_a_run_lacks_undecided(
    tmp_path: Path, label: str, not_applicable: dict[str, str], undecided: dict[str, str]
) -> None:
    steps = [Capture(step, {"loss": {"value": 1.0}, "a.weight": {"l2": 1.0}}) for step in range(20)]
    writer = RunWriter(tmp_path / "run").write_all(steps).end()
    writer.write_worker("rank0-1", framework=label, state="ended")
    (document,) = leadline.open_run(writer.path).worker_documents().values()
    assert document.framework == label
    rules = [(name, find_rule(name)()) for name in not_applicable | undecided]
    found = Evaluator(writer.path, rules, started_ns=START_NS).advance(is_over=True).rules
    assert {name: state["why"] for name, state in found.items() if state["verdict"] == "not_applicable"} == (
        not_applicable
    )
    assert {name: state["why"] for name, state in found.items() if state["verdict"] == "undecided"} == undecided


def test_a_check_that_was_recorded_all_the_same_is_judged(tmp_path: Path) -> None:
    name = "loss/consecutive_linear"
    steps = [
        Capture(0, {"loss": {"value": 1.0}}),
        Capture(1, {name: {"value": 0.0}}, infos={name: TensorInfo(name, ("checks",), ())}),
    ]
    writer = RunWriter(tmp_path / "run").write_all(steps).end()
    writer.write_worker("rank0-1", framework="jax 0.10.2", state="ended")
    rule = find_rule("consecutive_linear")()
    found = Evaluator(writer.path, [("it", rule)], started_ns=START_NS).advance(is_over=True).rules["it"]
    assert found["verdict"] == "clear"


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
