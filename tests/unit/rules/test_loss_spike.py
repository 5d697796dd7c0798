"""loss_spike: both bounds above the noise, and the patience."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.loss_spike import LossSpike
from leadline.testing.windows import verdicts

NOISE = [0.9, 1.0, 1.1] * 10
"""Median 1, median absolute deviation 0.1."""


def judge(values: Sequence[float], mode: str = "train", **parameters: float) -> list[Verdict]:
    parts = [captured(step, {"loss": {"value": value}}, mode=mode) for step, value in enumerate(values)]
    return [verdict for _, verdict in verdicts(LossSpike(**parameters), parts)]


def test_fires_once_the_spike_has_lasted() -> None:
    results = judge([*NOISE, *[9.0] * 5])
    assert [type(verdict) for verdict in results[-5:]] == [Clear] * 2 + [Undecided] * 2 + [Fired]
    assert results[-2] == Undecided("4 of 5 needed losses agree", stage="suspected")
    assert results[-1].message == "loss jumped from 1 to 9 and stayed above 2.19 for 5 steps"
    assert not any(isinstance(value, Fired) for value in judge([*NOISE, *[9.0] * 4, 1.0, *[9.0] * 4]))


@pytest.mark.parametrize(("name", "kind"), [("rollout/ep_rew_mean", NotApplicable), ("train/fps", Fired)])
def test_where_a_reward_is_logged_losses_may_rise(name: str, kind: type[Verdict]) -> None:
    losses = [*NOISE, *[9.0] * 5]
    parts = [
        captured(step, {"loss": {"value": value}} | ({name: {"value": 1.0}} if step % 10 == 0 else {}))
        for step, value in enumerate(losses)
    ]
    assert isinstance(verdicts(LossSpike(), parts)[-1][1], kind)


def test_a_loss_that_falls_from_where_it_jumped_to_is_that_of_another_task() -> None:
    learned_again = [9.0 * 0.9**step for step in range(20)]
    results = judge([*NOISE, *learned_again])
    assert not any(isinstance(verdict, Fired) for verdict in results)
    assert results[len(NOISE) + 4] == Undecided("loss jumped from 1 to 9, and falls again", stage="suspected")
    assert results[-1] == Clear()


def test_a_loss_that_falls_only_at_first_has_not_recovered() -> None:
    results = judge([*NOISE, *[9.0 * 0.9**step for step in range(6)], *[4.8, 4.7, 4.9] * 8])
    fired = [step for step, verdict in enumerate(results) if isinstance(verdict, Fired)]
    assert len(NOISE) + 6 < fired[0] <= len(NOISE) + 25


def test_clear_exactly_on_either_bound() -> None:
    on_spread = 1.0 + 8 * 1.4826 * median_deviation()
    assert judge([*NOISE, *[on_spread] * 5])[-1] == Clear()
    assert isinstance(judge([*NOISE, *[math.nextafter(on_spread, 9)] * 5])[-1], Fired)
    assert judge([*[1.0] * 30, *[1.5] * 5])[-1] == Clear()
    assert isinstance(judge([*[1.0] * 30, *[math.nextafter(1.5, 2)] * 5])[-1], Fired)


def median_deviation() -> float:
    return sorted(abs(value - 1.0) for value in NOISE)[len(NOISE) // 2]


def test_a_jump_that_undoes_little_of_what_was_learned_is_clear() -> None:
    fallen = [*[2.0] * 20, *[0.001] * 100]
    bound = 0.001 + (2.0 - 0.001) / 10
    assert judge([*fallen, *[bound] * 5])[-1] == Clear()
    assert isinstance(judge([*fallen, *[math.nextafter(bound, 2)] * 5])[-1], Fired)


def test_a_negative_loss_has_a_bound_above_it() -> None:
    assert judge([*[-2.0] * 30, *[-1.0] * 5])[-1] == Clear()
    assert isinstance(judge([*[-2.0] * 30, *[-0.9] * 5])[-1], Fired)


def test_a_loss_that_was_negative_must_rise_by_more_than_its_range() -> None:
    critic = [-1.0, -0.8, -0.9, -1.1, 0.0] * 6
    bound = 2 * 0.0 + 1.1
    assert judge([*critic, *[bound] * 5])[-1] == Clear()
    assert isinstance(judge([*critic, *[math.nextafter(bound, 2)] * 5])[-1], Fired)


def test_undecided_without_enough_earlier_values() -> None:
    assert [isinstance(verdict, Undecided) for verdict in judge([1.0] * 30)] == [True] * 24 + [False] * 6
    assert [isinstance(verdict, Undecided) for verdict in judge([1.0] * 9, window=4)] == [True] * 8 + [False]
    assert judge([1.0] * 7)[-1] == Undecided("7 of 25 losses needed", stage="too few")


def test_nonfinite_values_are_not_counted() -> None:
    assert not isinstance(judge([*NOISE, 9.0, 9.0, math.nan, 9.0, math.inf])[-1], Fired)
    assert isinstance(judge([math.nan] * 40)[-1], Undecided)


def test_eval_losses_are_not_evaluated() -> None:
    assert judge([*NOISE, *[9.0] * 5], mode="eval") == []


@pytest.mark.parametrize(("name", "value"), [("k", 0.0), ("window", 1), ("patience", 0)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"loss_spike: {name} must be"):
        LossSpike(**{name: value})
