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
    assert mad(values, centre) == statistics.median(abs(each - centre) for each in values)


def test_of_nothing_there_is_none() -> None:
    for function in (lambda: median([]), lambda: mad([], 0.0)):
        with pytest.raises(ValueError, match="no values have no median"):
            function()
    assert finite([1.0, math.nan, math.inf, -math.inf, 2.0]) == [1.0, 2.0]


def test_a_trend_is_seen_and_noise_is_none() -> None:
    rising = mann_kendall(list(range(20)))
    assert rising.score == 190
    assert rising.p_of_rising() < 1e-6
    assert rising.p_of_falling() > 0.999
    assert mann_kendall([1.0, 2.0] * 10).p_of_rising() > 0.05


@given(VALUES)
def test_backwards_it_is_the_opposite(values: list[float]) -> None:
    there, back = mann_kendall(values), mann_kendall(values[::-1])
    assert (there.score, there.z) == (-back.score, -back.z)
