"""Pairing of training and validation losses by name."""

from __future__ import annotations

import pytest

from leadline.records.loss_roles import TRAINING_SET, VALIDATION_SET, logged_losses, role_of


@pytest.mark.parametrize(
    ("name", "mode", "role", "stem"),
    [
        ("train-rmse", "train", "train", "rmse"),
        ("validation-rmse", "train", "validation", "rmse"),
        ("val_loss", "train", "validation", "loss"),
        ("loss", "train", "train", "loss"),
        ("loss", "eval", "validation", "loss"),
        ("train_loss", "eval", "train", "loss"),
        ("train/actor_loss", "eval", "train", "actor_loss"),
        ("holdout-rmse", "train", "train", "holdout-rmse"),
        ("test", "train", "train", "test"),
        ("Loss/train", "train", "train", "Loss"),
        ("Accuracy/test", "train", "validation", "Accuracy"),
        ("acc_val", "train", "validation", "acc"),
        ("loss_dev", "train", "train", "loss_dev"),
        ("latest", "train", "train", "latest"),
    ],
)
def test_by_name_and_mode(name: str, mode: str, role: str, stem: str) -> None:
    assert role_of(name, mode) == (role, stem)


def test_a_captured_loss_of_an_eval_step_is_of_validation_whatever_it_is_called() -> None:
    assert role_of("train_loss", "eval", ("losses",)) == ("validation", "loss")
    assert role_of("train_loss", "train", ("losses",)) == ("train", "loss")


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("validation_0-logloss", "logloss"),
        ("my-own-set-rmse", "rmse"),
        ("test-rmse-mean", "rmse-mean"),
        ("a-ndcg@5-", "ndcg@5-"),
        ("a-error@0.5", "error@0.5"),
        ("nothing", "nothing"),
    ],
)
def test_the_role_of_a_boosters_evaluation_set_is_known(name: str, stem: str) -> None:
    assert role_of(name, "train", ("losses", TRAINING_SET)) == ("train", stem)
    assert role_of(name, "train", ("losses", VALIDATION_SET)) == ("validation", stem)


def test_a_captured_loss_that_a_trainer_logs_again_is_known_by_its_name() -> None:
    captured = {"CrossEntropyLoss_output_0": ("layers", "losses")}
    logged = dict.fromkeys(("loss", "eval_loss", "Loss/train", "avg_loss", "metrics/loss"), ("metrics",))
    others = dict.fromkeys(("kl_loss", "accuracy", "loss_scale", "policy/loss"), ("metrics",))
    assert logged_losses({**captured, **others, **logged}) == list(logged)
    assert logged_losses({**others, **logged}) == []
    assert logged_losses({"train/loss": ("losses", "logged"), **logged}) == [], "nothing was captured"
