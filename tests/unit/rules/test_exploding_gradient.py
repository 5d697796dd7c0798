"""exploding_gradient: against the median of what came before, and which norm is looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured, skipped

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.exploding_gradient import ExplodingGradient
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(values: Sequence[float], name: str = "gradient_norm", **parameters: float) -> list[Verdict]:
    parts = [captured(step, {name: {"value": each}}) for step, each in enumerate(values)]
    return [verdict for _, verdict in verdicts(ExplodingGradient(**parameters), parts)]


def test_fires_at_the_second_and_is_clear_on_its_bound() -> None:
    assert judge([1.0] * 30 + [10.0, 10.0])[-1] == Clear()
    said = judge([1.0] * 30 + [10.1, 1.0, 10.1])
    assert said[-2] == Clear()
    assert isinstance(said[-1], Fired)
    assert said[-1].message == "gradient_norm is 10.1, 10.1 times its median of 1, in 2 of the last 5"


def test_what_is_spread_over_orders_of_magnitude_must_jump_higher() -> None:
    spread = [0.1, 1.0, 10.0] * 10
    assert judge([*spread, 1e3, 1e3])[-1] == Clear()
    assert isinstance(judge([*spread, 1e7, 1e7])[-1], Fired)


def test_two_more_than_five_apart_are_let_pass() -> None:
    said = judge([1.0] * 30 + [50.0, 1.0, 1.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0])
    assert not any(isinstance(each, Fired) for each in said)
    assert isinstance(judge([1.0] * 30 + [50.0, 1.0, 1.0, 1.0, 50.0])[-1], Fired)


def test_undecided_until_enough_came_before() -> None:
    said = judge([1.0] * 40)
    assert [isinstance(each, Undecided) for each in said] == [True] * 24 + [False] * 16


def test_what_is_not_finite_counts_on_neither_side() -> None:
    assert judge([1.0] * 30 + [math.nan, math.inf])[-1] == Clear()
    assert isinstance(judge([math.nan] * 40)[-1], Undecided)
    assert isinstance(judge([1.0, math.nan] * 30 + [50.0, 50.0])[-1], Fired)


def test_zero_gradients_are_undecided() -> None:
    assert isinstance(judge([0.0] * 40 + [1.0, 1.0])[-1], Undecided)


def test_the_norm_before_clipping_is_preferred() -> None:
    def norms(step: int, clipped: float, before: float) -> Capture:
        both = {"SGD/gradient_norm": clipped, "SGD/gradient_norm_before_clipping": before}
        return captured(step, {name: {"value": value} for name, value in both.items()})

    calm = [norms(step, 1.0, 1.0) for step in range(30)]
    said = verdicts(ExplodingGradient(), [*calm, norms(30, 1.0, 90.0), norms(31, 1.0, 90.0)])
    assert isinstance(said[-1][1], Fired)
    assert said[-1][1].tensors == ("SGD/gradient_norm_before_clipping",)
    assert verdicts(ExplodingGradient(), [*calm, norms(30, 90.0, 1.0), norms(31, 90.0, 1.0)])[-1][1] == Clear()


def test_whether_it_was_clipped_is_no_norm() -> None:
    assert isinstance(judge([0.0] * 40 + [1.0] * 5, name="SGD/gradient_clipped")[-1], Undecided)


def test_skipped_steps_are_not_judged() -> None:
    parts = [captured(step, {"gradient_norm": {"value": 1.0 if step < 30 else 99.0}}) for step in range(33)]
    said = dict(verdicts(ExplodingGradient(), [*parts, *(skipped(each) for each in (30, 31, 32))]))
    assert isinstance(said[32], Undecided)


@pytest.mark.parametrize(
    ("name", "value"),
    [("factor", 1.0), ("factor", math.nan), ("window", 0), ("patience", 0), ("patience", 6), ("warmup", 0)],
)
def test_bad_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"exploding_gradient: {name} must be"):
        ExplodingGradient(**{name: value})
