"""Faults of boosted trees: found during training, which is stopped; healthy twins are clear."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launching import LEADLINE, Ended, environment, finish, rule, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
ROUNDS = 5000
"""Rounds of a training with a fault that is not stopped, as in the script."""
OPTIONS = {
    "overfit": "overfit:patience=5,ratio_threshold=0.5",
    "class_imbalance": "class_imbalance",
    "feature_importance_overweight": "feature_importance_overweight",
    "no_split": "no_split",
    "tree_depth": "tree_depth",
}
MESSAGES = {
    "overfit": "above training loss",
    "class_imbalance": "class 0 has",
    "feature_importance_overweight": "of the importance by",
    "no_split": "no tree has a split after 1",
    "tree_depth": "a tree of this round has a depth of",
}
TENSORS = {
    "overfit": r"holdout-\w+",
    "class_imbalance": "labels",
    "no_split": r"feature_importance/(weight|split)/(f|Column_)0",
    "tree_depth": "trees/Depth",
    "feature_importance_overweight": r"feature_importance/(weight|gain)/(f|Column_)7",
}
"""The first tensor of the finding."""

pytestmark = pytest.mark.slow


def launch(fault: str, library: str, folder: Path, *more: str, healthy: bool = False) -> Ended:
    job = [PYTHON, script("tree_faults.py"), fault, library, *(["--healthy"] if healthy else [])]
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(folder / "runs"), "--budget", "off", "--rule"]
    words += [asked(fault, library), *more]
    return finish([*words, "--", *job], folder, env=environment())


def asked(fault: str, library: str) -> str:
    is_by_gain = (fault, library) == ("feature_importance_overweight", "lightgbm")
    return OPTIONS[fault] + (":tensor_regex=feature_importance/gain,nfeatures=1" if is_by_gain else "")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("fault", OPTIONS)
def test_a_fault_is_found_and_stops_the_training(tmp_path: Path, fault: str, library: str) -> None:
    ended = launch(fault, library, tmp_path, "--on", f"{fault}=stop_training")
    assert ended.status == 10, ended.err
    said = ended.show()
    assert (said["status"], said["stopped_by"], said["damage"], said["lost"]) == ("Stopped", f"rule:{fault}", [], [])
    found = rule(said, fault)
    assert (found["status"], found["verdict"]) == ("IssuesFound", "fired")
    first = found["findings"][0]
    assert MESSAGES[fault] in first["message"]
    assert re.fullmatch(TENSORS[fault], first["tensors"][0])
    assert first["step"] < said["steps"]["train"] < ROUNDS
    others = {rule["name"] for rule in said["rules"] if rule["findings"]} - {fault}
    assert others <= ({"rising_validation_loss"} if fault in ("overfit", "overtraining") else set())


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("fault", ["overfit", "tree_depth"])
def test_the_healthy_twin_is_clear(tmp_path: Path, fault: str, library: str) -> None:
    """The twins of all faults but overfitting are one training."""
    others = [name for name in OPTIONS if name not in ("overfit", fault)] if fault == "tree_depth" else []
    more = [word for name in others for word in ("--rule", asked(name, library))]
    ended = launch(fault, library, tmp_path, *more, "--on", f"{fault}=stop_training", healthy=True)
    assert ended.status == 0, ended.err
    said = ended.show()
    assert (said["status"], said["steps"], said["damage"], said["lost"]) == ("Completed", {"train": 40}, [], [])
    assert {rule["name"]: rule["findings"] for rule in said["rules"] if rule["findings"]} == {}
    for name in (fault, *others):
        assert (rule(said, name)["verdict"], rule(said, name)["why"]) == ("clear", ""), name


def test_tree_rules_and_default_rules_are_clear_on_a_healthy_training(tmp_path: Path) -> None:
    more = ("class_imbalance", "confusion", "feature_importance_overweight", "tree_depth", "create_xgboost_report")
    rules = [word for rule in more for word in ("--rule", rule)]
    said = launch("overfit", "xgboost", tmp_path, *rules, healthy=True).show()
    told = {rule["name"]: (rule["verdict"], rule["why"]) for rule in said["rules"]}
    assert {name: state for name, state in told.items() if state[0] == "fired"} == {}
    assert {told[rule] for rule in (*more, "overfit", "exploding_tensor", "loss_spike")} == {("clear", "")}
    tensors = ("not_applicable", "boosted trees have no gradients, weights or layers")
    assert {told[rule] for rule in ("exploding_gradient", "no_learning", "unused_parameter")} == {tensors}
    assert told["missing_zero_grad"] == ("not_applicable", "boosted trees have no backward passes and optimizers")
    assert all(why for verdict, why in told.values() if verdict == "not_applicable")
    assert all(why for verdict, why in told.values() if verdict == "undecided")
