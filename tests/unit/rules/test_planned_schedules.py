"""learning_rate before it is too late: schedules that end early, and warm-ups that do not end within the plan."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from leadline.records.names import REMAINING_STEPS
from leadline.records.series import TensorInfo
from leadline.records.verdict import Fired, Verdict
from leadline.rules.losses.learning_rate import LearningRate
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(
    planned: int | None, *, made: list[int], every: int = 5, told_at: int = 0, **lengths: int
) -> list[tuple[int, Verdict]]:
    """Return the verdicts on captures of a scheduler that had made so many steps.

    Args:
        planned: The train steps of the training.
        told_at: The train step at which that is known.
    """
    parts = []
    for at, steps in enumerate(made):
        values = {"AdamW/schedule_steps": float(steps)} | {f"AdamW/{name}": float(is_) for name, is_ in lengths.items()}
        if planned is not None and at * every == told_at:
            values[REMAINING_STEPS] = float(planned - told_at)
        infos = {name: TensorInfo(name, ("checks",), (), "float64") for name in values}
        parts.append(Capture(at * every, {name: {"value": value} for name, value in values.items()}, infos=infos))
    return verdicts(LearningRate(), parts)


def findings(*args: Any, **kwargs: Any) -> list[tuple[int, str]]:
    return [(step, verdict.message) for step, verdict in judge(*args, **kwargs) if isinstance(verdict, Fired)]


def test_a_schedule_that_is_stepped_for_each_process_is_named_at_the_sixth_step() -> None:
    ((step, message), *_) = findings(240, made=[0, 20, 40], schedule_length=240)
    assert (step, message) == (
        5,
        "the schedule of AdamW is over at step 60 of 240: it is made for 240 steps, and makes 4 for each update",
    )


def test_a_warm_up_beyond_the_end_is_named() -> None:
    ((step, message), *_) = findings(120, made=[0, 5, 10], schedule_length=120, warm_up_length=2000)
    assert (step, message) == (
        5,
        "the warm-up of AdamW takes 2,000 steps of its scheduler, and the training makes 120: the learning rate does "
        "not reach its value",
    )


def test_the_end_equals_that_of_a_plain_count() -> None:
    for per_update, length, planned in itertools.product((1, 2, 3), (20, 31, 60, 121), (50, 100, 240)):
        made, end = 0, 0
        while made < length:
            made, end = made + per_update, end + 1
        found = findings(planned, made=[0, 5 * per_update], schedule_length=length)
        assert bool(found) == (2 * end <= planned)
        if found:
            assert f" is over at step {end} of {planned}" in found[0][1]
        warm_up = findings(planned, made=[0, 5 * per_update], warm_up_length=length)
        assert bool(warm_up) == (end >= planned)


@pytest.mark.parametrize(
    "case",
    [
        {"planned": None, "made": [0, 20, 40]},  # no plan
        {"planned": 40, "made": [0, 20, 40]},  # a short training
        {"planned": 240, "made": [0, 0, 1]},  # stepped once in an epoch
        {"planned": 240, "made": [0, 18, 38]},  # left out at skipped steps
        {"planned": 240, "made": [0, 4, 8], "every": 1},  # too few steps
        {"planned": 240, "made": [0, 5, 10]},  # as long as the training
    ],
)
def test_what_is_not_known_exactly_is_not_said(case: dict[str, Any]) -> None:
    assert findings(case.pop("planned"), **case, schedule_length=240, warm_up_length=12) == []


def test_a_plan_that_is_known_later_counts_from_its_step() -> None:
    found = findings(240, made=[0, 20, 40], told_at=10, schedule_length=240)
    assert [step for step, _ in found] == [10]
    assert " is over at step 60 of 240" in found[0][1]
