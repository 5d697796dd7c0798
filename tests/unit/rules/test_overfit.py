"""overfit: validation loss above training loss, by phases, patience and names."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Fired
from leadline.rules.losses.overfit import Overfit
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(course: str, values: list[float], **parameters: float) -> list[str]:
    """Return the verdicts at the validation steps of a sequence such as ``ttvvtv``."""
    modes = {"t": "train", "v": "eval"}
    parts = [
        Capture(step, {"loss": {"value": value}}, mode=modes[role])
        for step, (role, value) in enumerate(zip(course, values, strict=True))
    ]
    results = verdicts(Overfit(**parameters), parts)
    return [type(verdict).__name__ for (_, verdict), each in zip(results, course, strict=True) if each == "v"]


def test_clear_on_its_bound_and_fired_above() -> None:
    assert judge("ttv", [1.5, 0.5, 1.25], ratio_threshold=0.25) == ["Clear"]
    assert judge("ttv", [1.5, 0.5, math.nextafter(1.25, 2)], ratio_threshold=0.25) == ["Fired"]


def test_training_is_the_mean_since_the_last_evaluation() -> None:
    assert judge("tvttv", [100.0, 1.0, 1.0, 1.0, 2.0]) == ["Clear", "Fired"]


def test_missing_steps_of_an_evaluation_count_as_the_previous_mean() -> None:
    assert judge("tvvvvtv", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.3]) == ["Clear"] * 5
    assert judge("tvvvvtv", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5])[-1] == "Fired"


def test_patience_counts_validation_steps_in_a_row() -> None:
    assert judge("tvvv", [1.0, 2.0, 2.0, 2.0], patience=3) == ["Clear", "Clear", "Fired"]
    assert judge("tvtvtv", [1.0, 2.0, 1.0, 0.1, 1.0, 2.0], patience=2) == ["Clear", "Clear", "Clear"]


def test_the_start_step_is_the_first_that_counts() -> None:
    assert judge("tvtvtv", [1.0, 2.0, 1.0, 2.0, 1.0, 2.0], start_step=2) == ["Undecided", "Fired", "Fired"]


def test_undecided_without_both_losses() -> None:
    assert judge("vv", [1.0, 2.0]) == ["Undecided", "Undecided"]
    assert judge("tv", [math.nan, 2.0]) == ["Undecided"]
    assert judge("tv", [1.0, math.inf]) == ["Undecided"]


def test_a_training_loss_of_zero_or_below() -> None:
    assert judge("tv", [0.0, 0.0]) == ["Clear"]
    assert judge("tv", [0.0, 1e-9]) == ["Fired"]
    assert judge("tv", [-1.0, -0.5]) == ["Fired"]
    assert judge("tv", [-1.0, -1.5]) == ["Clear"]


@pytest.mark.parametrize(("train", "validation"), [("train-rmse", "validation-rmse"), ("loss", "val_loss")])
def test_training_and_validation_are_distinguished_by_name(train: str, validation: str) -> None:
    parts = [Capture(step, {validation: {"value": 2.0}, train: {"value": 1.0}}) for step in range(2)]
    results = [verdict for _, verdict in verdicts(Overfit(tensor_regex=("rmse", "loss")), parts)]
    assert [type(verdict) for verdict in results] == [Fired, Fired]
    assert results[0].message == f"{validation}: validation loss 2 is 100 % above training loss 1"


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="not a valid regular expression"):
        Overfit(tensor_regex=("(",))
    with pytest.raises(ConfigurationError, match="patience must be an integer >= 1, not 0"):
        Overfit(patience=0)
