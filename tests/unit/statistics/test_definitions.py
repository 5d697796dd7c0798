"""Names of statistics: fixed names, families and errors."""

from __future__ import annotations

import pytest

from leadline.errors import UnknownNameError
from leadline.statistics.definitions import FAMILIES, STATISTICS, find_statistic, primaries


def test_a_fixed_name_is_found() -> None:
    for name, statistic in STATISTICS.items():
        assert find_statistic(name) is statistic


@pytest.mark.parametrize(
    ("name", "family", "arguments"),
    [
        ("p5", "p<percent>", (5.0,)),
        ("p99.9", "p<percent>", (99.9,)),
        ("p0", "p<percent>", (0.0,)),
        ("p100_exact", "p<percent>_exact", (100.0,)),
        ("within_-9.4999_9.4999", "within_<low>_<high>", (-9.4999, 9.4999)),
        ("within_-inf_0", "within_<low>_<high>", (float("-inf"), 0.0)),
        ("equals_50256", "equals_<number>", (50256.0,)),
        ("close_1e-05_1e-08", "close_<rtol>_<atol>", (1e-05, 1e-08)),
        ("close_1e-05_1e-08_nan", "close_<rtol>_<atol>_nan", (1e-05, 1e-08)),
        ("unit_within_-23_16.99999", "unit_within_<low>_<high>", (-23.0, 16.99999)),
    ],
)
def test_a_name_of_a_family_contains_its_numbers(name: str, family: str, arguments: tuple[float, ...]) -> None:
    found = find_statistic(name)
    assert (found.name, found.family, found.arguments) == (name, family, arguments)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("abs_mena", "did you mean 'abs_mean'?"),
        ("p101", "a percentile must be between p0 and p100"),
        ("p-1", "a percentile must be between p0 and p100"),
        ("within_3_1", "the lower bound must come first"),
        ("close_-1_0", "tolerances must be finite and not negative"),
        ("close_0_inf", "tolerances must be finite and not negative"),
        ("equals_x", "did you mean 'equals_0'?"),
        ("", "no statistic named ''"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_statistic(name)
    assert hint in str(raised.value)


def test_every_statistic_is_documented() -> None:
    known = [*STATISTICS.values(), *(find_statistic(family.example) for family in FAMILIES)]
    for statistic in known:
        assert statistic.meaning, statistic.name
        assert statistic.unit in ("tensor", "count", "ratio", "hash"), statistic.name
        assert statistic.not_a_number, statistic.name
        assert not set(statistic.name) & set(",@: "), statistic.name
        assert statistic.is_sampled == (statistic.source in ("sample", "change", "update")), statistic.name
        assert statistic.is_vector or statistic.source not in ("units", "classes", "pair"), statistic.name


def test_primaries() -> None:
    names = frozenset({"mean", "abs_max", "std", "p5", "within_0_1"})
    assert primaries(names) == {"sum", "min", "max", "centred", "within_0_1"}
