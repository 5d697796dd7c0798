"""Text summary of overfitting and underfitting."""

from __future__ import annotations

import numpy as np

from leadline.analysis.trees import Loss, summarize_fit
from leadline.records.loss_roles import Role

ROUNDS = np.arange(50)
FALLING = 0.1 + 0.9 * 0.8**ROUNDS


def loss(values: object, role: Role = "train", name: str = "train-rmse") -> Loss:
    return Loss(name, role, "rmse", np.arange(len(values)), np.asarray(values, np.float64))


def words(train: object, validation: object | None = None) -> str:
    known = [loss(train)] + ([] if validation is None else [loss(validation, "validation", "test-rmse")])
    (text,) = summarize_fit(known)
    return text


def test_a_validation_loss_that_rises_again_is_overfitting() -> None:
    text = words(FALLING, np.where(ROUNDS < 20, 1 - ROUNDS / 40, 0.5 + (ROUNDS - 20) / 100))
    assert text.startswith(
        "test-rmse reached its minimum at round 20 (0.5) and has risen by 58 % since, to 0.79, while train"
    )
    assert "overfitting. Early stopping would have kept round 20." in text


def test_a_persistent_gap_is_reported() -> None:
    assert "is 100 % above train-rmse (0.1) and does not rise" in words(FALLING, FALLING + 0.1)
    assert "is 11 times train-rmse" in words(FALLING, FALLING + 1.0)


def test_a_good_fit_is_reported_as_such() -> None:
    assert words(FALLING, FALLING * 1.05).endswith("no sign of overfitting or underfitting.")


def test_a_falling_or_flat_loss_is_underfitting() -> None:
    assert words(1.0 - ROUNDS / 100, 1.01 - ROUNDS / 100).endswith("would improve it (underfitting).")
    assert "has decreased by only 0.0 % in total: underfitting" in words(np.ones(50), np.ones(50))


def test_without_a_validation_loss_overfitting_is_not_detected() -> None:
    assert words(FALLING).startswith("train-rmse: without a validation loss, overfitting cannot be detected.")


def test_without_a_training_loss_the_validation_loss_is_reported() -> None:
    (text,) = summarize_fit([loss(FALLING, "validation", "test-rmse")])
    assert text.endswith("There is no training loss to compare it with.")


def test_too_few_rounds_or_finite_values_are_not_assessed() -> None:
    few = ["Fewer than 5 rounds were captured: too few to assess the fit of the model."]
    assert summarize_fit([]) == summarize_fit([loss([1.0, 0.5])]) == summarize_fit([loss([np.nan] * 50)]) == few
