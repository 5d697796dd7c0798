"""The names of statistics: plain ones, families, and what is refused."""

from __future__ import annotations

import pytest

from leadline.errors import UnknownNameError
from leadline.statistics.definitions import FAMILIES, STATISTICS, find_statistic, primaries


def test_a_plain_name_is_found_as_it_stands() -> None:
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
def test_a_name_of_a_family_bears_its_numbers(name: str, family: str, arguments: tuple[float, ...]) -> None:
    found = find_statistic(name)
    assert (found.name, found.family, found.arguments) == (name, family, arguments)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("abs_mena", "did you mean 'abs_mean'?"),
        ("p101", "a percentile is p0 to p100"),
        ("p-1", "a percentile is p0 to p100"),
        ("within_3_1", "the lower bound comes first"),
        ("close_-1_0", "tolerances are finite and not negative"),
        ("close_0_inf", "tolerances are finite and not negative"),
        ("equals_x", "did you mean 'equals_0'?"),
        ("", "no statistic named ''"),
    ],
)
def test_what_is_no_statistic_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_statistic(name)
    assert hint in str(raised.value)


def test_every_statistic_says_what_it_is() -> None:
    known = [*STATISTICS.values(), *(find_statistic(each.example) for each in FAMILIES)]
    for each in known:
        assert each.meaning, each.name
        assert each.unit in ("tensor", "count", "ratio", "hash"), each.name
        assert each.not_a_number, each.name
        assert not set(each.name) & set(",@: "), each.name
        assert each.is_sampled == (each.source in ("sample", "change", "update")), each.name
        assert each.is_vector or each.source not in ("units", "classes", "pair"), each.name


def test_what_a_device_computes_for_others() -> None:
    assert primaries(frozenset({"mean", "abs_max", "p5", "within_0_1"})) == {"sum", "min", "max", "p5", "within_0_1"}
