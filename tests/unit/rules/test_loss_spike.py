"""loss_spike: out of the noise, by half as much again, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.loss_spike import LossSpike
from leadline.testing.windows import verdicts

NOISE = [0.9, 1.0, 1.1] * 10
"""Median 1, median absolute deviation 0.1."""


def judge(values: Sequence[float], mode: str = "train", **parameters: float) -> list[Verdict]:
    parts = [captured(step, {"loss": {"value": each}}, mode=mode) for step, each in enumerate(values)]
    return [verdict for _, verdict in verdicts(LossSpike(**parameters), parts)]


def test_fires_once_it_has_stayed_and_not_before() -> None:
    said = judge([*NOISE, *[9.0] * 5])
    assert [type(each) for each in said[-5:]] == [Clear] * 4 + [Fired]
    assert said[-1].message == "loss jumped from 1 to 9 and stayed above 2.186 for 5 steps"
    assert not any(isinstance(each, Fired) for each in judge([*NOISE, *[9.0] * 4, 1.0, *[9.0] * 4]))


def test_clear_exactly_on_either_bound() -> None:
    on_spread = 1.0 + 8 * 1.4826 * median_deviation()
    assert judge([*NOISE, *[on_spread] * 5])[-1] == Clear()
    assert isinstance(judge([*NOISE, *[math.nextafter(on_spread, 9)] * 5])[-1], Fired)
    assert judge([*[1.0] * 30, *[1.5] * 5])[-1] == Clear()
    assert isinstance(judge([*[1.0] * 30, *[math.nextafter(1.5, 2)] * 5])[-1], Fired)


def median_deviation() -> float:
    return sorted(abs(each - 1.0) for each in NOISE)[len(NOISE) // 2]


def test_a_negative_loss_has_a_bound_above_it() -> None:
    assert judge([*[-2.0] * 30, *[-1.0] * 5])[-1] == Clear()
    assert isinstance(judge([*[-2.0] * 30, *[-0.9] * 5])[-1], Fired)


def test_undecided_until_enough_came_before() -> None:
    assert [isinstance(each, Undecided) for each in judge([1.0] * 30)] == [True] * 24 + [False] * 6
    assert [isinstance(each, Undecided) for each in judge([1.0] * 9, window=4)] == [True] * 8 + [False]


def test_what_is_not_finite_counts_on_neither_side() -> None:
    assert judge([*NOISE, 9.0, 9.0, math.nan, 9.0, math.inf])[-1] == Clear()
    assert isinstance(judge([math.nan] * 40)[-1], Undecided)


def test_evaluation_is_not_judged() -> None:
    assert judge([*NOISE, *[9.0] * 5], mode="eval") == []


@pytest.mark.parametrize(("name", "value"), [("k", 0.0), ("window", 1), ("patience", 0)])
def test_bad_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"loss_spike: {name} must be"):
        LossSpike(**{name: value})
