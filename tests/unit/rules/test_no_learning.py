"""no_learning: bits that stay, parameters outside, rates of zero; and what is let pass."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.no_learning import NoLearning
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def weight(step: int, checksum: float, gradient: float | None = 1.0, rate: float = 0.1) -> list[Capture]:
    tensors = {"a.weight": {"checksum": checksum}}
    if gradient is not None:
        tensors["gradient/a.weight"] = {"abs_max": gradient}
    return [captured(step, tensors), captured(step, {"SGD/lr": {"value": rate}})]


def judge(*parts: list[Capture], **parameters: int) -> list[Verdict]:
    return [verdict for _, verdict in verdicts(NoLearning(**parameters), [each for part in parts for each in part])]


def test_bits_that_stay_fire_exactly_when_the_steps_have_passed() -> None:
    assert [type(each) for each in judge(weight(0, 7.0), weight(19, 7.0))] == [Undecided, Undecided]
    said = judge(weight(0, 7.0), weight(20, 7.0))
    assert isinstance(said[-1], Fired)
    assert said[-1].message == "a.weight: not a bit has changed since step 0, though gradients come"


@pytest.mark.parametrize("gradient", [0.0, None, math.nan, math.inf])
def test_without_a_gradient_that_should_change_it_nothing_is_wrong(gradient: float | None) -> None:
    said = judge(weight(0, 7.0), weight(20, 7.0, gradient), weight(30, 7.0))
    assert said[1:] == [Clear(), Clear()]


def test_a_gradient_that_only_rounding_left_over_changes_nothing_by_right() -> None:
    def beside(step: int, gradient: float) -> list[Capture]:
        largest = captured(step, {"gradient/b.weight": {"abs_max": 2.0}, "b.weight": {"checksum": float(step)}})
        return [*weight(step, 7.0, gradient), largest]

    assert not any(isinstance(each, Fired) for each in judge(beside(0, 2e-5), beside(30, 2e-5)))
    assert isinstance(judge(beside(0, 2.1e-5), beside(30, 2.1e-5))[-1], Fired)


def test_a_change_begins_the_count_anew() -> None:
    said = judge(weight(0, 7.0), weight(10, 8.0), weight(20, 8.0), weight(30, 8.0))
    assert [type(each) for each in said] == [Undecided, Undecided, Clear, Fired]


def test_while_the_rate_rises_it_may_stand_still() -> None:
    said = judge(
        weight(0, 7.0, rate=0.0), weight(20, 7.0, rate=1e-9), weight(40, 7.0, rate=2e-9), weight(60, 7.0, rate=2e-9)
    )
    assert [type(each) for each in said] == [Undecided, Clear, Clear, Fired]


def test_rates_of_zero() -> None:
    def rate(step: int, value: float) -> list[Capture]:
        return [captured(step, {"SGD/lr": {"value": value}})]

    assert isinstance(judge(rate(0, 0.0), rate(20, 0.0))[-1], Fired)
    assert judge(rate(0, 0.0), rate(20, 0.0))[-1].evidence["kind"] == "rate"
    assert not any(
        isinstance(each, Fired) for each in judge(rate(0, 0.0), rate(19, 0.0), rate(20, 1e-9), rate(30, 0.0))
    )


def test_a_parameter_outside() -> None:
    def outside(step: int, value: float) -> list[Capture]:
        return [captured(step, {"lost.weight/outside_optimizers": {"value": value}})]

    said = judge(outside(0, 1.0), outside(10, 1.0), outside(20, 1.0))
    assert [isinstance(each, Fired) for each in said] == [False, False, True]
    assert said[-1].message == "lost.weight: gradients since step 0, and no optimizer holds it"
    assert not isinstance(judge(outside(0, 1.0), outside(10, 0.0), outside(20, 1.0))[-1], Fired)


def test_what_was_lost_leaves_it_undecided() -> None:
    parts = [*weight(0, 7.0), *weight(30, 8.0)]
    assert isinstance(verdicts(NoLearning(), parts, thinned=True)[-1][1], Undecided)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no_learning: steps must be"):
        NoLearning(steps=0)
