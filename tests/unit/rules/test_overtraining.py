"""overtraining: saved losses without a new best, in training and in validation."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Fired
from leadline.rules.losses.overtraining import Overtraining
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def words(values: list[float], mode: str = "train", name: str = "loss", **parameters: float) -> list[str]:
    parts = [Capture(step, {name: {"value": value}}, mode=mode) for step, value in enumerate(values)]
    return [type(verdict).__name__ for _, verdict in verdicts(Overtraining(**parameters), parts)]


def test_fires_after_patience_losses_without_a_new_best() -> None:
    assert words([1.0] * 7) == ["Clear"] * 5 + ["Fired"] * 2
    assert words([1.0] * 12, mode="eval") == ["Clear"] * 10 + ["Fired"] * 2


def test_a_new_best_is_lower_by_more_than_delta() -> None:
    assert words([1.0, 0.75], patience_train=1, delta=0.25) == ["Clear", "Fired"]
    assert words([1.0, math.nextafter(0.75, 0)], patience_train=1, delta=0.25) == ["Clear", "Clear"]


def test_validation_is_recognized_by_mode_or_name() -> None:
    for name in ("val_loss", "validation-loss", "test-loss"):
        assert words([1.0] * 7, name=name) == ["Clear"] * 7
    assert words([1.0] * 7, name="valve_loss")[-1] == "Fired"


def test_nonfinite_losses_are_neither_best_nor_counted() -> None:
    results = words([1.0, math.nan, math.inf, -math.inf, 1.0], patience_train=1)
    assert results == ["Clear", "Undecided", "Undecided", "Undecided", "Fired"]


def test_the_message_has_the_best_step() -> None:
    parts = [Capture(step, {"loss": {"value": 0.5 if step else 0.25}}) for step in range(6)]
    fired = verdicts(Overtraining(), parts)[-1][1]
    assert isinstance(fired, Fired)
    assert fired.message == "loss: no new best in 5 saved training losses: 0.5 now, 0.25 at step 0"


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="patience_train must be an integer >= 1, not 0"):
        Overtraining(patience_train=0)
    with pytest.raises(ConfigurationError, match="delta must be a number >= 0"):
        Overtraining(delta=-0.1)
