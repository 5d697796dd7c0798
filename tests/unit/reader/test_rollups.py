"""Roll-ups, compared with plain loops over the rows."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import numpy as np
import pytest

from leadline.reader.rollups import SAMPLES, SECOND_NS, STEPS, VALUES, Columns

Row = tuple[int, int, float]


def random_rows(seed: int, count: int = 400) -> list[Row]:
    """Return key, place and value of rows in any order, with repeated places and non-finite values."""
    chance = random.Random(seed)
    values = [math.nan, math.inf, -math.inf, *range(6)]
    return [(chance.randrange(3), chance.randrange(90), float(chance.choice(values))) for _ in range(count)]


def value_rows(rows: list[Row]) -> Columns:
    key, step, value = (np.array(column) for column in zip(*rows, strict=True))
    return {"key": key, "step": step, "mode_step": step // 2, "time_ns": np.arange(len(rows)), "value": value}


def by_bucket(rows: list[Row], width: int) -> dict[tuple[int, int], list[tuple[int, Row]]]:
    groups = defaultdict(list)
    for number, row in enumerate(rows):
        groups[row[0], row[1] // width].append((number, row))
    return dict(sorted(groups.items()))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [1, 7, 200])
def test_a_bucket_of_values_has_its_last_finite_value(seed: int, width: int) -> None:
    rows = random_rows(seed)
    buckets = VALUES.in_buckets(value_rows(rows), width)
    groups = by_bucket(rows, width)
    assert buckets["key"].tolist() == [key for key, _ in groups]
    for index, members in enumerate(groups.values()):
        finite = [(number, row) for number, row in members if math.isfinite(row[2])]
        number, last = max(finite or members, key=lambda member: (member[1][1], member[0]))
        assert (buckets["step"][index], buckets["time_ns"][index]) == (last[1], number)
        np.testing.assert_equal(buckets["value"][index], last[2])
        assert buckets["samples"][index] == len(members)
        assert buckets["nonfinite"][index] == len(members) - len(finite)
        numbers = [row[2] for _, row in finite]
        np.testing.assert_equal(buckets["least"][index], min(numbers, default=math.nan))
        np.testing.assert_equal(buckets["most"][index], max(numbers, default=math.nan))


@pytest.mark.parametrize("seed", range(5))
def test_a_bucket_of_steps_names_the_first_of_the_longest(seed: int) -> None:
    chance = random.Random(seed)
    steps = [(step, chance.randrange(1, 5)) for step in range(100)]
    step, took = (np.array(column) for column in zip(*steps, strict=True))
    rows: Columns = {"key": step * 0, "step": step, "start_ns": step * 10, "longest_ns": took, "count": step * 0 + 2}
    rows |= {name: took for name in STEPS.row_columns if name not in rows}
    buckets = STEPS.in_buckets(rows, 8)
    for index in range(len(buckets["step"])):
        members = sorted(row for row in steps if row[0] // 8 == index)
        longest = max(took for _, took in members)
        assert buckets["longest_step"][index] == next(step for step, took in members if took == longest)
        assert buckets["longest_ns"][index] == longest
        assert buckets["shortest_ns"][index] == min(took for _, took in members)
        assert (buckets["step"][index], buckets["last_step"][index]) == (members[0][0], members[-1][0])
        assert buckets["duration_ns"][index] == 2 * sum(took for _, took in members)
        assert buckets["end_ns"][index] == max(step * 10 + took for step, took in members)


@pytest.mark.parametrize("schema", [SAMPLES, VALUES])
def test_buckets_of_buckets_are_those_of_the_rows(schema) -> None:
    rows = value_rows([row for row in random_rows(3) if math.isfinite(row[2])])
    if schema is SAMPLES:
        rows = {"key": rows["key"], "time_ns": rows["step"] * SECOND_NS, "total": rows["value"]}
    unit = SECOND_NS if schema is SAMPLES else 1
    expected = schema.in_buckets(rows, 12 * unit)
    actual = schema.in_buckets(schema.in_buckets(rows, 4 * unit), 12 * unit)
    for name in ("key", *schema.columns):
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-12, err_msg=name)


def test_no_rows_have_no_buckets() -> None:
    for schema in (SAMPLES, STEPS, VALUES):
        empty = schema.in_buckets(schema.joined([]), schema.width)
        assert {len(column) for column in empty.values()} == {0}
