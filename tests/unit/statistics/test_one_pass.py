"""Statistics computed in one pass equal those computed one by one."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.statistics.arrays import compute
from leadline.statistics.arrays import update_ratio as reference_update_ratio
from leadline.statistics.definitions import BASIC
from leadline.statistics.one_pass import compute_all, l2_of, update_ratio

NAMES = (*BASIC, "rms", "variance", "median", "abs_min")
GENERATOR = np.random.default_rng(0)
LARGE = GENERATOR.normal(3.0, 0.01, size=(300, 401)).astype(np.float32)  # far from 0 for its spread
ARRAYS = {
    "large": LARGE,
    "half": GENERATOR.normal(size=(70, 5)).astype(np.float16),
    "double": LARGE.astype(np.float64),
    "zeros": np.zeros((4, 4), np.float32),
    "one": np.float32([2.5]),
    "scalar": np.array(-1.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "integers": GENERATOR.integers(-5, 5, 1000),
    "huge": np.float32([3e38, -3e38, 1e-40]),
    "transposed": LARGE.T,
    "nan": np.where(LARGE > 3.02, np.float32(np.nan), LARGE),
    "infinite": np.where(LARGE > 3.02, np.float32(-np.inf), LARGE),
    "only_nan": np.full(3, np.nan, np.float32),
    "both_infinities": np.float32([np.inf, -np.inf, 1.0]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_statistics_equal_those_computed_one_by_one(array: np.ndarray) -> None:
    expected = [compute(name, array) for name in NAMES]
    assert compute_all(NAMES, array) == pytest.approx(expected, rel=1e-9, nan_ok=True)
    assert l2_of(array) == pytest.approx(compute("l2", array), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("factor", [1.0, 1.001, 0.0, np.nan, np.inf])
def test_the_update_ratio_is_that_of_the_reference(array: np.ndarray, factor: float) -> None:
    with np.errstate(all="ignore"):
        after = (array * np.float32(factor)).astype(array.dtype)
    expected = reference_update_ratio(array, after)
    assert update_ratio(array, after) == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_a_change_from_zero_is_infinite_and_none_is_zero() -> None:
    zeros, ones = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert update_ratio(zeros, ones) == np.inf
    assert update_ratio(zeros, zeros) == 0.0
