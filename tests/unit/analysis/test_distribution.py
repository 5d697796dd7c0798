"""Distribution of metrics, compared with a plain loop over every sample."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest

from leadline.analysis.usage import balance, distributions


def table(by_device: dict[str, list[float]], weights: dict[str, list[int]] | None = None) -> pa.Table:
    """Samples of GPUs, or means of buckets if weights are given."""
    rows = []
    for device, values in by_device.items():
        for at, value in enumerate(values):
            row = {"node": "n", "kind": "gpu", "device": device, "metric": "utilization_percent", "time_ns": at}
            if weights is None:
                rows.append({**row, "value": value})
            else:
                rows.append({**row, "mean": value, "min": value - 1, "max": value + 2, "samples": weights[device][at]})
    return pa.Table.from_pylist(rows)


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def test_percentiles_equal_a_plain_sort() -> None:
    chance = random.Random(4)
    given = {f"gpu{at}": [chance.uniform(0, 100) for _ in range(37 + at)] for at in (10, 2)}
    found = distributions(table(given))
    assert [each.device for each in found] == ["gpu2", "gpu10"]
    for each in found:
        values = given[each.device]
        assert each.samples == len(values)
        assert each.mean == pytest.approx(sum(values) / len(values))
        assert (each.min, each.max) == (min(values), max(values))
        for percent in (5, 25, 50, 75, 95):
            assert getattr(each, f"p{percent}") == pytest.approx(percentile(values, percent))


def test_a_bucket_is_weighted_by_its_samples() -> None:
    weights = [3, 1, 5]
    (each,) = distributions(table({"gpu0": [10.0, 90.0, 30.0]}, {"gpu0": weights}))
    spelled_out = [10.0] * 3 + [90.0] + [30.0] * 5
    assert each.samples == 9
    assert each.mean == pytest.approx(sum(spelled_out) / 9)
    for percent in (5, 25, 50, 75, 95):
        assert getattr(each, f"p{percent}") == pytest.approx(percentile(spelled_out, percent))
    assert (each.min, each.max) == (9.0, 92.0)


def test_nonfinite_and_absent_values_are_ignored() -> None:
    assert distributions(table({"gpu0": [math.nan, math.nan]})) == []
    assert distributions(table({"gpu0": [math.nan, 5.0]}))[0].samples == 1
    assert distributions(table({"gpu0": [1.0]}).slice(0, 0)) == []


def test_balance_names_the_busiest_and_the_idlest() -> None:
    found = balance(distributions(table({"gpu0": [90.0], "gpu1": [70.0], "gpu2": [85.0]})))
    assert found is not None
    assert (found.busiest.device, found.idlest.device, found.apart) == ("gpu0", "gpu1", 20.0)
    assert not found.is_even
    even = balance(distributions(table({"gpu0": [90.0], "gpu1": [80.0]})))
    assert even is not None
    assert even.is_even  # exactly on the bound
    assert balance(distributions(table({"gpu0": [90.0]}))) is None
