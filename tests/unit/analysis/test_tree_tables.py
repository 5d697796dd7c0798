"""Model data of boosted trees, read from runs written through the real store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tree_scenarios import answers, counts, importances, loss

from leadline.analysis import trees
from leadline.reader.run import Run
from leadline.testing.runs import Capture, Part, RunWriter

WORKER = "rank0-1"


def written(folder: Path, parts: list[Part], **result: object) -> Run:
    writer = RunWriter(folder / "run").write_all(parts)
    writer.write_worker(WORKER, **result)
    writer.set_status("Completed", exit_status=0)
    return Run(writer.path)


def test_boosted_trees_are_detected_by_worker_or_importances(tmp_path: Path) -> None:
    plain = [Capture(0, {"loss": {"value": 1.0}})]
    assert not trees.is_boosted_run(written(tmp_path / "a", plain, framework="torch 2.9"))
    assert trees.is_boosted_run(written(tmp_path / "b", plain, framework="xgboost 3.2.0"))
    assert trees.is_boosted_run(written(tmp_path / "c", plain, framework="lightgbm 4.7.0"))
    assert trees.is_boosted_run(written(tmp_path / "d", [importances(0, {"a": 1.0})], framework="none"))


def test_the_model_kind_follows_from_objective_and_predictions(tmp_path: Path) -> None:
    parts = [loss(0, train=1.0), *answers(0, [0, 1], [0.2, 0.7]), *answers(5, [0, 1], [0.1, 0.9])]
    settings = {"objective": "binary:logistic", "max_depth": 3}
    run = written(tmp_path, parts, framework="xgboost 3.2.0", hyperparameters=settings, evaluated_on="holdout")
    model = trees.read_model(run)
    assert model == trees.BoostedModel("xgboost 3.2.0", "binary:logistic", "binary", "holdout", settings, (0, 5))
    found = trees.read_predictions(run, 5)
    assert found is not None
    assert found.predictions.tolist() == pytest.approx([0.1, 0.9])
    assert {step: each.tolist() for step, each in trees.matrices(run, model).items()} == {
        0: [[1, 0], [0, 1]],
        5: [[1, 0], [0, 1]],
    }


def test_without_an_objective_the_predictions_determine_the_kind(tmp_path: Path) -> None:
    several = written(tmp_path / "m", answers(0, [0, 2], [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]), framework="xgboost 1")
    assert trees.read_model(several).kind == "multiclass"
    price = written(tmp_path / "r", answers(0, [0.5, 7.0], [1.0, 6.0], is_class=False), framework="xgboost 1")
    model = trees.read_model(price)
    assert model.kind == "regression"
    last = trees.read_predictions(price, 0)
    assert last is not None
    assert trees.residuals(last).tolist() == [-0.5, 1.0]
    assert trees.read_model(written(tmp_path / "n", [], framework="xgboost 1")).kind == "other"


def test_rounds_are_sampled_with_the_first_and_the_last(tmp_path: Path) -> None:
    parts = [part for step in range(0, 100, 2) for part in answers(step, [0, 1], [0.0, 1.0])]
    run = written(tmp_path, parts, framework="xgboost 1")
    model = trees.read_model(run)
    steps = trees.chosen_steps(model, limit=5)
    assert (len(model.steps), len(steps), steps[0], steps[-1]) == (50, 5, 0, 98)


def test_matrices_counted_during_training_are_used(tmp_path: Path) -> None:
    run = written(tmp_path, [counts(0, [3, 1], [[2, 1], [0, 1]]), counts(5, [3, 1], [[3, 0], [0, 1]])])
    model = trees.read_model(run)
    assert model.steps == ()
    assert {step: each.tolist() for step, each in trees.matrices(run, model).items()} == {
        0: [[2, 1], [0, 1]],
        5: [[3, 0], [0, 1]],
    }


def test_a_class_that_appears_late_is_in_every_matrix(tmp_path: Path) -> None:
    parts = [*answers(0, [0, 1], [0.0, 1.0]), *answers(5, [0, 2], [2.0, 0.0])]
    run = written(tmp_path, parts, framework="xgboost 1", hyperparameters={"objective": "multi:softmax"})
    sizes = {step: each.shape for step, each in trees.matrices(run, trees.read_model(run)).items()}
    assert sizes == {0: (3, 3), 5: (3, 3)}


def test_mismatched_labels_and_predictions_are_ignored(tmp_path: Path) -> None:
    run = written(tmp_path, answers(0, [0, 1, 1], [0.1, 0.9]), framework="xgboost 1")
    assert trees.read_predictions(run, 0) is None
    assert trees.read_predictions(run, 3) is None
    assert trees.matrices(run, trees.read_model(run)) == {}


def test_importances_are_those_of_the_last_round_the_largest_first(tmp_path: Path) -> None:
    parts = [
        importances(0, {"a": 0.9, "b": 0.1}),
        importances(5, {"a": 0.25, "b/c": 0.75}),
        importances(5, {"a": float("nan"), "<b>": 1.0}, "gain"),
    ]
    run = written(tmp_path, parts)
    found = trees.importances(run)
    assert {kind: list(each) for kind, each in found.items()} == {"weight": ["b/c", "a"], "gain": ["<b>", "a"]}
    assert found["weight"] == {"b/c": 0.75, "a": 0.25}
    assert trees.importances(run, 0) == {"weight": {"a": 0.9, "b": 0.1}}
    assert trees.importances(written(tmp_path / "none", [loss(0, train=1.0)])) == {}


def test_losses_know_their_role_and_what_they_are_compared_with(tmp_path: Path) -> None:
    run = written(tmp_path, [loss(step, train=1.0 / (step + 1), holdout=1.5) for step in range(3)])
    found = trees.losses(run)
    assert [(each.name, each.role, each.stem) for each in found] == [
        ("train-logloss", "train", "logloss"),
        ("holdout-logloss", "validation", "logloss"),
    ]
    assert found[0].steps.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found[0].values, [1.0, 0.5, 1 / 3])
