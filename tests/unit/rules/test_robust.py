"""Median, MAD and trend, on values whose results are known."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.rules.robust import finite, mad, mann_kendall, median

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(VALUES)
def test_median_and_mad_are_those_of_the_standard_library(values: list[float]) -> None:
    centre = statistics.median(values)
    assert median(values) == centre
    assert mad(values, centre) == statistics.median(abs(value - centre) for value in values)


def test_the_median_of_no_values_is_an_error() -> None:
    for function in (lambda: median([]), lambda: mad([], 0.0)):
        with pytest.raises(ValueError, match="the median of no values is undefined"):
            function()
    assert finite([1.0, math.nan, math.inf, -math.inf, 2.0]) == [1.0, 2.0]


def test_a_trend_is_found_and_noise_is_not_a_trend() -> None:
    rising = mann_kendall(list(range(20)))
    assert rising.score == 190
    assert rising.p_of_rising() < 1e-6
    assert rising.p_of_falling() > 0.999
    assert mann_kendall([1.0, 2.0] * 10).p_of_rising() > 0.05


@given(VALUES)
def test_the_trend_of_reversed_values_is_the_opposite(values: list[float]) -> None:
    there, back = mann_kendall(values), mann_kendall(values[::-1])
    assert (there.score, there.z) == (-back.score, -back.z)
