"""MAD and trend, on values whose results are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.rules.robust import finite, mad, mann_kendall, theil_sen

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_slope_is_the_median_of_those_of_all_pairs(values: list[float]) -> None:
    places = [3.0 * place + 1 for place in range(len(values))]
    first, second = np.triu_indices(len(values), 1)
    numbers, at = np.array(values), np.array(places)
    slopes = (numbers[second] - numbers[first]) / (at[second] - at[first])
    assert theil_sen(places, values) == pytest.approx(float(np.median(slopes)), abs=1e-9)


@given(VALUES)
def test_mad_is_the_median_distance_from_the_centre(values: list[float]) -> None:
    centre = float(np.median(values))
    assert mad(values, centre) == pytest.approx(float(np.median(np.abs(np.array(values) - centre))))


def test_the_mad_of_no_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="no median for empty data"):
        mad([], 0.0)
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
