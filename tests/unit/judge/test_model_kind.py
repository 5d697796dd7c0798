"""The kind of model of a run, and the verdicts of network rules on boosted trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from tree_scenarios import importances, loss

from leadline.judge.evaluator import Evaluator
from leadline.records.series import TensorInfo
from leadline.rules.registry import DEFAULT, find_rule
from leadline.testing.runs import START_NS, Capture, Part, RunWriter

WHY = "boosted trees have no gradients, weights or layers"
OF_NETWORKS = {"exploding_gradient", "no_learning", "missing_zero_grad", "unused_parameter", "replica_divergence"}


def whys(folder: Path, parts: list[Part], *, in_pieces: bool = False) -> dict[str, str]:
    """Why each default rule is undecided; "" of those that are not."""
    writer = RunWriter(folder / "run")
    judging = Evaluator(writer.path, [(each, find_rule(each)()) for each in DEFAULT], started_ns=START_NS)
    found: dict[str, str] = {}
    for _ in writer.grow(parts):
        if in_pieces:
            found |= {name: each["why"] for name, each in judging.advance().rules.items()}
    writer.end()
    return found | {name: each["why"] for name, each in judging.advance(is_over=True).rules.items()}


@pytest.mark.parametrize("in_pieces", [False, True])
def test_network_rules_explain_that_boosted_trees_have_no_data_for_them(tmp_path: Path, in_pieces: bool) -> None:
    parts = [loss(step, train=1.0, holdout=1.0) for step in range(5)]
    said = whys(tmp_path, parts, in_pieces=in_pieces)
    assert {name for name, why in said.items() if why == WHY} == OF_NETWORKS
    assert {name for name, why in said.items() if not why} >= {"exploding_tensor"}


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
