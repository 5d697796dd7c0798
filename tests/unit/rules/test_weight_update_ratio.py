"""weight_update_ratio: the captured change of one step, or raw weights compared over several steps."""

from __future__ import annotations

import math

import pytest
from generated_runs import float_tensors

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.tensors.weight_update_ratio import WeightUpdateRatio
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(ratio: float, norm: float = 1.0, **parameters: float) -> Fired | Clear | Undecided:
    values = {"a.weight": {"update_ratio": ratio, "l2": norm}}
    ((_, verdict),) = verdicts(WeightUpdateRatio(**{"epsilon": 0.0, **parameters}), [Capture(0, values)])
    return verdict


def test_fires_above_and_below_and_is_clear_on_both_bounds() -> None:
    assert judge(10.0) == judge(1e-8) == Clear()
    large, small = judge(math.nextafter(10.0, 11)), judge(math.nextafter(1e-8, 0))
    assert isinstance(large, Fired)
    assert large.message == "a.weight: update ratio 10 is above 10"
    assert isinstance(small, Fired)
    assert "is below 1e-8" in small.message
    assert large.suggestion != small.suggestion


def test_epsilon_is_added_to_the_norm() -> None:
    assert judge(20.0, norm=1.0, epsilon=1.0) == Clear()
    assert isinstance(judge(20.1, norm=1.0, epsilon=1.0), Fired)


def test_undecided_without_a_ratio() -> None:
    assert isinstance(judge(math.nan), Undecided)
    assert isinstance(judge(math.inf, norm=0.0), Undecided)
    assert isinstance(judge(math.inf), Fired)


def test_weights_are_compared_with_the_latest_num_steps_earlier() -> None:
    parts = [float_tensors(step, {"a.weight": [value]}) for step, value in [(0, 1.0), (4, 2.0), (8, 2.0), (9, 40.0)]]
    results = verdicts(WeightUpdateRatio(num_steps=4), parts)
    assert [(step, type(verdict).__name__) for step, verdict in results] == [
        (0, "Undecided"),
        (4, "Clear"),
        (8, "Fired"),
        (9, "Fired"),
    ]
    assert results[2][1].evidence["update_ratio"] == 0.0
    assert results[3][1].evidence["update_ratio"] == pytest.approx(19.0)


def test_weights_that_are_zero_or_change_shape_are_not_compared() -> None:
    parts = [
        float_tensors(0, {"a.weight": [0.0], "b.weight": [1.0]}),
        float_tensors(1, {"a.weight": [9.0], "b.weight": [1.0, 2.0]}),
    ]
    assert isinstance(verdicts(WeightUpdateRatio(num_steps=1), parts)[1][1], Undecided)


def test_needs_statistics_or_raw_weights() -> None:
    assert not any(need.raw for need in WeightUpdateRatio().needs().tensors)
    assert {(need.raw, need.every) for need in WeightUpdateRatio(num_steps=7).needs().tensors} == {(True, 7)}


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"small_threshold .* must be below large_threshold"):
        WeightUpdateRatio(small_threshold=10.0)
    with pytest.raises(ConfigurationError, match="num_steps must be none or an integer >= 1, not 0"):
        WeightUpdateRatio(num_steps=0)
