"""Statistics derived from primaries, and merged with them, equal those that numpy's own functions compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UnknownNameError
from leadline.statistics import arrays
from leadline.statistics.definitions import STATISTICS, find_statistic
from leadline.statistics.primaries import PRIMARIES, derive, find_primary, merge, merge_statistic

FORMULAS: dict[str, Callable[[np.ndarray], float]] = {
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "l1": lambda x: np.linalg.norm(x, 1),
    "l2": np.linalg.norm,
    "abs_mean": lambda x: np.mean(np.abs(x)),
    "abs_max": lambda x: np.max(np.abs(x)),
    "abs_min": lambda x: np.min(np.abs(x)),
    "rms": lambda x: np.sqrt(np.mean(np.square(x))),
    "std": np.std,
    "variance": np.var,
    "zero_ratio": lambda x: np.mean(x == 0),
    "nan_count": lambda x: np.isnan(x).sum(),
    "nonfinite_count": lambda x: (~np.isfinite(x)).sum(),
    "within_-1_2.5": lambda x: np.mean((x >= -1) & (x <= 2.5)),
    "equals_2": lambda x: np.mean(x == 2),
}
"""The statistics by numpy's own functions, without primaries."""
PARTS = st.lists(
    st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100)), min_size=1, max_size=9),
    min_size=1,
    max_size=5,
)


def approx(expected: float) -> object:
    return pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


def of(parts: list[np.ndarray], names: frozenset[str]) -> dict[str, np.ndarray]:
    return {
        "size": np.array([part.size for part in parts], np.float64),
        **{name: np.array([arrays.primary(name, part) for part in parts]) for name in names},
    }


def test_every_derived_statistic_of_one_array_has_a_formula_here() -> None:
    derived = {name for name, one in STATISTICS.items() if one.derivation and one.source == "elements"}
    assert derived == {name for name in FORMULAS if name in STATISTICS}
    known = {primary for one in STATISTICS.values() if one.derivation for primary in one.derivation.primaries}
    assert known | {"size"} == set(PRIMARIES), "each primary is needed, and each that is needed is defined"


@settings(deadline=None)
@given(PARTS)
def test_statistics_follow_from_the_merged_primaries_of_parts(parts: list[list[float]]) -> None:
    whole = np.concatenate([np.array(part) for part in parts])
    needed = frozenset(p for name in FORMULAS for p in find_statistic(name).derivation.primaries)
    pieces = of([np.array(part) for part in parts], needed)
    starts = np.array([0, len(parts)], np.intp)
    twice = {name: np.concatenate([values, values]) for name, values in pieces.items()}
    for name, values in zip(FORMULAS, derive(tuple(FORMULAS), merge(twice, starts)), strict=True):
        assert values.tolist() == [approx(FORMULAS[name](whole))] * 2, name


@settings(deadline=None)
@given(PARTS)
def test_statistics_of_parts_merge_into_that_of_the_whole(parts: list[list[float]]) -> None:
    pieces = [np.array(part) for part in parts]
    sizes, whole = [part.size for part in pieces], np.concatenate(pieces)
    for name, formula in FORMULAS.items():
        for also in ("mean", "sum") if name in ("std", "variance") else ("nan_count",):
            captured = [{name: float(formula(part)), also: float(FORMULAS[also](part))} for part in pieces]
            assert merge_statistic(name, sizes, captured) == approx(formula(whole)), name


def test_what_does_not_determine_the_whole_does_not_merge() -> None:
    assert merge_statistic("std", [1, 2], [{"std": 0.0}, {"std": 1.0, "mean": 2.0}]) is None
    assert merge_statistic("median", [1, 2], [{"median": 0.0}, {"median": 1.0}]) is None
    assert merge_statistic("change_l2", [1, 2], [{"change_l2": 3.0}, {"change_l2": 4.0}]) == 5.0


def test_a_part_without_finite_elements_does_not_hide_the_extrema_of_others() -> None:
    captured = [{"min": 2.0, "abs_max": 3.0}, {"min": float("nan"), "abs_max": float("nan")}]
    assert merge_statistic("min", [1, 1], captured) == 2.0
    assert merge_statistic("abs_max", [1, 1], captured) == 3.0


def test_no_elements_change_nothing_and_have_no_statistics() -> None:
    empty, names = np.zeros(0), [name for name in PRIMARIES if name not in ("size", "change_squares")]
    for name in names:
        assert arrays.primary(name, empty) == PRIMARIES[name].start
        assert PRIMARIES[name].merge(PRIMARIES[name].start, 2.5) == 2.5
    statistics = tuple(FORMULAS)
    for name, values in zip(
        statistics, derive(statistics, of([empty], frozenset(names) | {"within_-1_2.5", "equals_2"})), strict=True
    ):
        assert values[0] == (0.0 if name in ("nan_count", "nonfinite_count") else approx(float("nan"))), name


def test_names_without_a_primary_are_refused() -> None:
    assert find_primary("equals_0").merge is np.add
    with pytest.raises(UnknownNameError):
        find_primary("summ")
    with pytest.raises(KeyError, match="median is not derived from primaries"):
        derive(("median",), {"size": np.ones(1)})
