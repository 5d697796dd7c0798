"""learning_rate: the median ratio of all parameters, both bounds, and the patience."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.losses.learning_rate import LearningRate
from leadline.testing.windows import verdicts


def judge(*ratios: float, other: float = math.nan, **settings: bool) -> list[Verdict]:
    parts = [
        captured(step, {"a.weight": {"update_ratio": value}, "b.bias": {"update_ratio": other}})
        for step, value in enumerate(ratios)
    ]
    return [verdict for _, verdict in verdicts(LearningRate(), parts, **settings)]


def test_fires_at_the_tenth_in_a_row_on_either_side() -> None:
    results = judge(*[0.5] * 9, 0.01, *[0.5] * 10)
    assert [type(value) for value in results] == [Undecided] * 9 + [Clear] * 10 + [Fired]
    assert results[-1].message.startswith("median update ratio 0.5, above 0.1 for 10 captured steps in a row")
    assert "lower by about 10^3" in results[-1].suggestion
    assert isinstance(judge(*[1e-7] * 10)[-1], Fired)


def test_clear_exactly_on_both_bounds() -> None:
    assert judge(*[0.1] * 10)[-1] == judge(*[1e-6] * 10)[-1] == Clear()


def test_the_median_is_over_parameters_that_have_a_ratio() -> None:
    assert judge(*[0.5] * 10, other=0.0)[-1].evidence["median_update_ratio"] == 0.25
    assert isinstance(judge(*[0.5] * 10, other=math.inf)[-1], Fired)
    assert all(isinstance(value, Undecided) for value in judge(*[math.nan] * 12))


def test_steps_without_any_update_are_no_low_rate() -> None:
    assert all(isinstance(value, Undecided) for value in judge(*[0.0] * 12))
    assert judge(*[1e-3] * 10, *[0.0] * 10)[-1] == judge(*[0.0] * 10)[-1]


def test_clear_is_undecided_with_incomplete_data() -> None:
    assert isinstance(judge(*[1e-3] * 10, is_incomplete=True)[-1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"learning_rate: low \(0.1\) must be below high \(0.1\)"):
        LearningRate(low=0.1)
    for name, value in (("low", -1.0), ("high", 0.0), ("patience", 0)):
        with pytest.raises(ConfigurationError, match=f"learning_rate: {name} must be"):
            LearningRate(**{name: value})
