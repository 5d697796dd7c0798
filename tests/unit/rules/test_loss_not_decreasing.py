"""loss_not_decreasing: the compared steps, and the change at which it fires."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.losses.loss_not_decreasing import LossNotDecreasing, change_percent
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def loss(step: int, value: float, mode: str = "train", name: str = "loss") -> Capture:
    return Capture(step, {name: {"value": value}}, mode=mode)


def compared_at(steps: Iterable[int], num_steps: int = 10) -> list[tuple[int, int]]:
    results = verdicts(LossNotDecreasing(num_steps=num_steps), [loss(step, 1.0) for step in steps])
    return [(step, verdict.evidence["before_step"]) for step, verdict in results if isinstance(verdict, Fired)]


def test_a_loss_saved_every_three_steps_is_compared_as_in_the_guide() -> None:
    assert compared_at(range(0, 60, 3)) == [(21, 9), (33, 21), (45, 33), (57, 45)]


def test_a_loss_that_starts_later_is_compared_later() -> None:
    assert compared_at(range(100, 160, 3)) == [(121, 109), (133, 121), (145, 133), (157, 145)]


def test_saved_every_step_and_with_gaps() -> None:
    assert compared_at(range(31)) == [(19, 9), (29, 19)]
    assert compared_at([0, 1, 50, 51, 100], num_steps=10) == [(50, 1), (100, 51)]


@pytest.mark.parametrize(
    ("now", "fires"),
    [(998.0, False), (999.0, False), (999.1, True), (1000.0, True), (1050.0, True), (1051.0, True)],
)
def test_clear_exactly_on_its_bound(now: float, fires: bool) -> None:
    results = verdicts(LossNotDecreasing(num_steps=1), [loss(0, 1000.0), loss(1, now)])
    assert isinstance(results[0][1], Undecided)
    assert isinstance(results[1][1], Fired if fires else Clear)


def test_messages_describe_the_change() -> None:
    def message(now: float) -> str:
        fired = verdicts(LossNotDecreasing(num_steps=1), [loss(0, 2.0), loss(1, now)])[1][1]
        assert isinstance(fired, Fired)
        return fired.message

    assert message(3.0) == "loss rose by 50 % from step 0 to 1 (2 to 3)"
    assert message(2.0) == "loss fell by 0 % from step 0 to 1 (2 to 2)"


def test_nan_is_undecided_and_zero_is_as_documented() -> None:
    for pair in [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0)]:
        results = verdicts(LossNotDecreasing(num_steps=1), [loss(step, value) for step, value in enumerate(pair)])
        assert isinstance(results[1][1], Undecided)
    assert change_percent(0.0, 1.0) == math.inf
    assert change_percent(0.0, -1.0) == -math.inf
    assert change_percent(0.0, 0.0) == 0.0
    assert change_percent(-2.0, -1.0) == 50.0


def test_eval_losses_are_preferred() -> None:
    parts = [loss(0, 1.0), loss(1, 1.0), loss(2, 1.0, "eval"), loss(3, 1.0), loss(4, 1.0, "eval")]
    results = [type(verdict).__name__ for _, verdict in verdicts(LossNotDecreasing(num_steps=1), parts)]
    assert results == ["Undecided", "Fired", "Undecided", "Undecided", "Fired"]
    results = [step for step, _ in verdicts(LossNotDecreasing(num_steps=1, mode="train"), parts)]
    assert results == [0, 1, 3]
    results = [type(verdict).__name__ for _, verdict in verdicts(LossNotDecreasing(num_steps=1, mode="global"), parts)]
    assert results == ["Undecided", "Fired", "Fired", "Fired", "Fired"]


def test_each_tensor_and_worker_is_evaluated_separately() -> None:
    parts = [Capture(step, {"loss": {"value": 1.0 * step}}, worker=f"rank{step % 2}-1") for step in range(2)]
    assert all(isinstance(verdict, Undecided) for _, verdict in verdicts(LossNotDecreasing(num_steps=1), parts))


def test_selections() -> None:
    rule = LossNotDecreasing(use_losses_collection=False, tensor_regex=("accuracy",), num_steps=1)
    assert [step for step, _ in verdicts(rule, [loss(0, 1.0), loss(1, 1.0, name="accuracy")])] == [1]
    with pytest.raises(ConfigurationError, match="nothing is selected"):
        LossNotDecreasing(use_losses_collection=False)
    with pytest.raises(ConfigurationError, match="mode must be none or one of"):
        LossNotDecreasing(mode="training")


def test_metrics_are_not_required_beside_losses() -> None:
    """Boosted trees have no metrics in Leadline's sense where all that is evaluated is a loss."""
    needs = LossNotDecreasing(collection_names=("metrics",)).needs().tensors
    assert {need.collection: need.is_optional for need in needs} == {"losses": False, "metrics": True}
    needs = LossNotDecreasing(collection_names=("metrics",), use_losses_collection=False).needs().tensors
    assert {need.collection: need.is_optional for need in needs} == {"metrics": False}
