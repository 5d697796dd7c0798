"""Over- and underfitting in words."""

from __future__ import annotations

import numpy as np

from leadline.analysis.fit_summary import fit_words
from leadline.analysis.trees import Loss
from leadline.records.loss_roles import Role

ROUNDS = np.arange(50)
FALLING = 0.1 + 0.9 * 0.8**ROUNDS


def loss(values: object, role: Role = "train", name: str = "train-rmse") -> Loss:
    return Loss(name, role, "rmse", np.arange(len(values)), np.asarray(values, np.float64))


def words(train: object, validation: object | None = None) -> str:
    known = [loss(train)] + ([] if validation is None else [loss(validation, "validation", "test-rmse")])
    (said,) = fit_words(known)
    return said


def test_a_validation_loss_that_has_turned_is_overfitting() -> None:
    said = words(FALLING, np.where(ROUNDS < 20, 1 - ROUNDS / 40, 0.5 + (ROUNDS - 20) / 100))
    assert said.startswith("test-rmse was lowest at round 20 (0.5) and has risen by 58% since, to 0.79, while train")
    assert "overfitting. Early stopping would have kept round 20." in said


def test_a_gap_that_stays_is_told_without_a_turn() -> None:
    assert "is 100% above train-rmse (0.1), and does not rise" in words(FALLING, FALLING + 0.1)
    assert "is 11 times train-rmse" in words(FALLING, FALLING + 1.0)


def test_a_good_fit_is_called_one() -> None:
    assert words(FALLING, FALLING * 1.05).endswith("neither over- nor underfitting is to be seen.")


def test_what_still_falls_or_hardly_fell_is_underfitting() -> None:
    assert words(1.0 - ROUNDS / 100, 1.01 - ROUNDS / 100).endswith("would still gain (underfitting).")
    assert "has fallen by only 0.0% in all: underfitting" in words(np.ones(50), np.ones(50))


def test_without_a_validation_loss_overfitting_is_not_to_be_seen() -> None:
    assert words(FALLING).startswith("train-rmse: there is no validation loss of it, so overfitting cannot be seen.")


def test_without_a_training_loss_the_validation_loss_is_told() -> None:
    (said,) = fit_words([loss(FALLING, "validation", "test-rmse")])
    assert said.endswith("No loss of the training set is there to compare.")


def test_too_few_rounds_or_numbers_say_nothing() -> None:
    few = ["Fewer than 5 rounds were captured: too few to say how well the model fits."]
    assert fit_words([]) == fit_words([loss([1.0, 0.5])]) == fit_words([loss([np.nan] * 50)]) == few
