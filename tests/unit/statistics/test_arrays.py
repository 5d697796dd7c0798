"""The reference implementation in numpy, with values computed by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from leadline.errors import UnknownNameError
from leadline.statistics import arrays

NAN, INF = float("nan"), float("inf")
VALUES = np.array([[3.0, -4.0, 0.0], [NAN, INF, 1.0]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("min", -4.0),
        ("max", 3.0),
        ("abs_max", 4.0),
        ("abs_min", 0.0),
        ("sum", NAN),
        ("mean", NAN),
        ("l2", NAN),
        ("nan_count", 1.0),
        ("nonfinite_count", 2.0),
        ("zero_ratio", 1 / 6),
        ("median", 0.5),
        ("p0", -4.0),
        ("p100", 3.0),
        ("p50_exact", 0.5),
        ("within_-4_0", 2 / 6),
        ("within_0_inf", 4 / 6),
        ("equals_1", 1 / 6),
    ],
)
def test_nan_and_infinity(name: str, expected: float) -> None:
    assert arrays.compute(name, VALUES) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", 6.0),
        ("mean", 1.5),
        ("prod", 0.0),
        ("l1", 6.0),
        ("l2", 14**0.5),
        ("rms", 3.5**0.5),
        ("variance", 1.25),
        ("std", 1.25**0.5),
        ("median", 1.5),
        ("p25", 0.75),
        ("batch_std", 1.0),
    ],
)
def test_numbers_by_hand(name: str, expected: float) -> None:
    assert arrays.compute(name, np.arange(4).reshape(2, 2)) == pytest.approx(expected)


def test_complex_numbers_use_absolute_values_except_for_changes() -> None:
    values = np.array([3 + 4j, 0j])
    assert arrays.compute("max", values) == 5.0
    assert arrays.compute("change_l2", 1j * values, values) == pytest.approx(50**0.5)
    assert arrays.compute("update_ratio", 1j * values, values) == pytest.approx(2**0.5)
    assert arrays.compute("close_0_0", 1j * values, values) == 0.5


def test_empty_arrays() -> None:
    empty = np.zeros((0, 3))
    assert arrays.compute("nan_count", empty) == 0.0
    for name in ("min", "sum", "prod", "median", "checksum", "batch_std", "within_0_1"):
        assert np.isnan(arrays.compute(name, empty)), name
    assert np.isnan(arrays.compute("change_l2", empty, empty))
    assert arrays.compute_vector("histogram", empty)[2:].sum() == 0
    assert np.isnan(arrays.compute_vector("unit_mean", empty)).tolist() == [True] * 3


def test_changes() -> None:
    before, after = np.array([1.0, 2.0, NAN, INF]), np.array([1.0, 2.05, NAN, INF])
    assert arrays.compute("close_0_0", after, before) == 0.5
    assert arrays.compute("close_0.05_0", after, before) == 0.75
    assert arrays.compute("close_0_0_nan", after, before) == 0.75
    assert arrays.compute("update_ratio", np.ones(2), np.zeros(2)) == INF
    assert arrays.compute("update_ratio", np.zeros(2), np.zeros(2)) == 0.0


def test_checksums_are_stable() -> None:
    """Runs are compared with runs from years ago."""
    assert arrays.checksum(np.arange(5, dtype=np.float32)) == 37830008964677
    assert arrays.checksum(np.arange(5, dtype=np.uint8)) == 230417234032472
    assert arrays.checksum(np.arange(600_000, dtype=np.int64)) == 241898529993727
    assert arrays.checksum(np.array([0.0])) != arrays.checksum(np.array([-0.0]))


def test_histograms_equal_those_of_numpy() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    low, high, *counts = arrays.compute_vector("histogram", values)
    assert (low, high) == (values.min(), values.max())
    assert counts == np.histogram(values, 30)[0].tolist()
    constant = arrays.compute_vector("histogram", np.full(7, 2.5))
    assert constant[2:].tolist() == np.histogram(np.full(7, 2.5), 30)[0].tolist()


def test_units_are_channels_and_features() -> None:
    values = np.arange(24.0).reshape(2, 3, 2, 2)
    assert arrays.compute_vector("unit_mean", values).tolist() == [values[:, unit].mean() for unit in range(3)]
    three = values.reshape(2, 4, 3)
    assert arrays.compute_vector("unit_activity", three - 2).tolist() == [7 / 8, 7 / 8, 7 / 8]
    assert arrays.compute_vector("unit_within_0_2", three).tolist() == [1 / 8, 1 / 8, 1 / 8]


def test_statistics_of_two_arrays_are_refused() -> None:
    with pytest.raises(KeyError, match="before the change"):
        arrays.compute("change_l2", VALUES)
    with pytest.raises(KeyError):
        arrays.compute("histogram", VALUES)
    with pytest.raises(KeyError, match="confusion is not a vector, or not a statistic of one array"):
        arrays.compute_vector("confusion", VALUES)
    with pytest.raises(UnknownNameError):
        arrays.compute("abs_mena", VALUES)


def test_the_means_of_quantiles_are_those_of_groups_of_sorted_elements() -> None:
    few = arrays.compute_vector("quantile_means", np.array([3.0, np.nan, 1.0, 2.0]))
    np.testing.assert_array_equal(few, [np.nan, 1.0, 2.0, 3.0])  # as many groups as elements
    values = np.random.default_rng(0).normal(size=1000)
    means = arrays.compute_vector("quantile_means", values)
    edges = np.arange(129) * 1000 // 128
    np.testing.assert_allclose(means, [np.sort(values)[a:b].mean() for a, b in itertools.pairwise(edges)], atol=1e-12)
    assert arrays.compute_vector("quantile_means", np.zeros(0)).size == 0
