"""broken_metric: values that are not finite or exactly 0 in a row, and what excuses zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured

from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.broken_metric import BrokenMetric
from leadline.testing.windows import verdicts

LEARNS = [1.0] * 25
FALLEN = [*LEARNS, *[0.0] * 10]


def judge(**metrics: Sequence[float]) -> list[Verdict]:
    metrics = {name.replace("__", "/"): values for name, values in metrics.items()}
    count = len(next(iter(metrics.values())))
    parts = [captured(step, {name: {"value": each[step]} for name, each in metrics.items()}) for step in range(count)]
    return [verdict for _, verdict in verdicts(BrokenMetric(), parts)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_ten_values_in_a_row_that_are_not_finite_fire(bad: float) -> None:
    results = judge(grad_norm=[*LEARNS, *[bad] * 10])
    assert results[-2] == Clear()
    found = results[-1]
    assert isinstance(found, Fired)
    assert found.message == (
        "grad_norm has been NaN or infinite in each of its 10 values since step 25, and was 1 before"
    )
    assert (found.since_step, found.tensors) == (25, ("grad_norm",))
    assert judge(grad_norm=[*LEARNS, *[bad] * 9, 1.0, *[bad] * 9])[-1] == Clear()


def test_a_norm_that_was_never_a_number_fires_though_the_loss_is_0() -> None:
    found = judge(train__loss=[0.0] * 10, grad_norm=[math.nan] * 10)[-1]
    assert isinstance(found, Fired)
    assert found.message == "grad_norm has been NaN or infinite in each of its 10 values since step 0"


def test_a_loss_that_falls_to_0_at_once_fires() -> None:
    results = judge(train__loss=FALLEN)
    assert results[-2] == Clear()
    found = results[-1]
    assert isinstance(found, Fired)
    assert found.message == "train/loss has been exactly 0 in each of its 10 values since step 25, and was 1 before"


def test_a_loss_that_fades_or_is_rounded_to_0_is_learned() -> None:
    assert judge(train__loss=[*LEARNS, 0.1, *[0.0] * 10])[-1] == Clear()
    assert judge(train__loss=[*[0.001] * 25, *[0.0] * 10])[-1] == Clear()
    assert judge(train__loss=[0.0] * 30)[-1] == Clear()


def test_zeros_of_groups_without_advantage_and_of_a_learned_task_are_no_fault() -> None:
    assert judge(train__loss=FALLEN, reward_std=[0.1] * 35)[-1] == Clear()
    assert judge(train__loss=FALLEN, reward=[0.01 * step for step in range(35)])[-1] == Clear()
    assert isinstance(judge(train__loss=FALLEN, reward=[0.1] * 35)[-1], Fired)


def test_few_values_and_other_metrics() -> None:
    assert judge(train__loss=[1.0] * 19)[-1] == Undecided("19 of 20 values of train/loss needed", stage="too few")
    assert set(map(type, judge(reward=LEARNS))) == {NotApplicable}
