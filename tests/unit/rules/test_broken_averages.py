"""broken_averages: what the hooks count of running averages, and the loss."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.broken_averages import BrokenAverages
from leadline.testing.windows import verdicts

TOTAL, AVERAGE = "SGD/nonfinite_averages", "1.running_var/nonfinite_average"
INITIAL, LAYER = "SGD/initial_averages", "1/initial_average"


def judge(*steps: dict[str, float], patience: int = 3) -> list[Verdict]:
    """Return the verdicts on captures ten steps apart."""
    parts = [
        captured(10 * at, {name: {"value": value} for name, value in values.items()}) for at, values in enumerate(steps)
    ]
    return [verdict for _, verdict in verdicts(BrokenAverages(patience=patience), parts)]


def test_averages_that_are_not_finite_fire_while_the_loss_is_finite() -> None:
    healthy, found = judge(
        {TOTAL: 0.0, INITIAL: 0.0, "loss": 1.0}, {TOTAL: 1.0, AVERAGE: 1.0, INITIAL: 0.0, "loss": 1.0}
    )
    assert healthy == Clear()
    assert isinstance(found, Fired)
    assert found.message.startswith("1.running_var is not finite since a step from 1 to 10, though the loss is")
    assert (found.tensors, found.since_step) == (("1.running_var",), 10)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_either_is_left_to_other_rules(loss: float) -> None:
    lost, recovered = judge({TOTAL: 1.0, AVERAGE: 1.0, "loss": loss}, {TOTAL: 1.0, AVERAGE: 1.0, "loss": 1.0})
    assert isinstance(lost, Undecided)
    assert isinstance(recovered, Fired)
    assert "since step 0" in recovered.message


def test_averages_of_the_start_fire_at_the_last_capture_of_the_patience() -> None:
    initial = {TOTAL: 0.0, INITIAL: 1.0, LAYER: 1.0, "loss": 1.0}
    first, second, third = judge(initial, initial, initial)
    assert isinstance(first, Undecided)
    assert (first.stage, isinstance(second, Undecided)) == ("suspected", True)
    assert isinstance(third, Fired)
    assert third.tensors == ("1",)
    updated = {TOTAL: 0.0, INITIAL: 0.0, "loss": 1.0}
    assert judge(initial, initial, updated, initial)[2:] == [Clear(), first]


def test_a_model_without_averages_has_none_to_judge() -> None:
    assert isinstance(judge({TOTAL: -1.0, "loss": 1.0})[0], NotApplicable)
    assert isinstance(judge({"loss": 1.0})[0], Undecided)


def test_patience_is_at_least_one() -> None:
    with pytest.raises(ConfigurationError):
        BrokenAverages(patience=0)
