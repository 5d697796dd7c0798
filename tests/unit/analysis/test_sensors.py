"""The rows of each sensor, compared with a plain dictionary."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from leadline.analysis.usage import by_sensor


def test_each_row_belongs_to_its_sensor_in_the_order_of_time() -> None:
    chance = random.Random(2)
    rows = [
        {
            "node": chance.choice(("algo-10", "algo-2")),
            "kind": chance.choice(("cpu", "gpu")),
            "device": chance.choice(("total", "core2", "core10")),
            "metric": chance.choice(("a_percent", "b_percent")),
            "time_ns": chance.randrange(1000),
            "value": chance.random(),
        }
        for _ in range(500)
    ]
    expected: dict[tuple[str, ...], list[int]] = {}
    for at, row in enumerate(rows):
        key = (str(row["node"]), str(row["kind"]), str(row["device"]), str(row["metric"]))
        expected.setdefault(key, []).append(at)
    found = by_sensor(pa.Table.from_pylist(rows))
    assert len(found) == len(expected)
    for each in found:
        places = expected[each.node, each.kind, each.device, each.metric]
        assert sorted(each.rows.tolist()) == places
        times = [int(rows[at]["time_ns"]) for at in each.rows.tolist()]
        assert times == sorted(times)
    assert [each[:3] for each in found[:3]] == [("algo-2", "cpu", device) for device in ("total", "core2", "core10")]
    assert {each.node for each in found[: len(found) // 2]} == {"algo-2"}


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(count: int) -> None:
    row = {"node": "n", "kind": "cpu", "device": "total", "metric": "m", "time_ns": 1}
    assert len(by_sensor(pa.Table.from_pylist([row]).slice(0, count))) == count
