"""Reading many batches at a time gives what reading them one by one gives, and stops before the same damage."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reader.bulk import BulkSegment, BulkStream
from leadline.reader.segments import SegmentTail
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, Heartbeat, RunWriter
from leadline.testing.timelines import step_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    writer = RunWriter(tmp_path_factory.mktemp("bulk") / "run", batch_rows=3, segment_batches=20)
    for step in range(100):
        writer.write(
            Capture(step, {"loss": {"value": step / 7}, "fc.weight": {"l2": 2.0}}, mode="eval" if step % 5 else "train")
        )
        writer.write(Heartbeat(START_NS + step, value=step / 3))
        for each in step_rows(step, START_NS + step, {"data": 5.0, "forward": 2.0 * step}):
            writer.write(each)
    return writer.end().path


def segments(run: str, part: str) -> list[str]:
    folder = os.path.join(run, part)
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("part", [layout.SERIES, layout.SYSTEM, layout.TIMELINE])
@pytest.mark.parametrize("limit_bytes", [1, 700, 5000, 1 << 20])
def test_gives_the_rows_of_batches_read_one_by_one(run: str, part: str, limit_bytes: int) -> None:
    for path in segments(run, part):
        batches = SegmentTail(path, "x").read_new()
        bulk = BulkSegment(path, "x")
        ranges = []
        while (each := bulk.read(limit_bytes)) is not None:
            ranges.append(each)
        assert bulk.damage is None
        assert bulk.left_bytes == 0
        assert np.concatenate([each.rows for each in ranges]).tolist() == [each.rows for each in batches]
        for name in batches[0].columns:
            told = [row for each in ranges for row in each.table[name].to_pylist()]
            assert told == [row for each in batches for row in np.asarray(each.columns[name]).tolist()]


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 20_000), limit_bytes=st.sampled_from([300, 4000, 1 << 20]))
def test_stops_where_reading_one_by_one_stops(run: str, place: int, limit_bytes: int) -> None:
    path = segments(run, layout.TIMELINE)[0]
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data[place % len(data)] ^= 0x10
    harmed = f"{run}-harmed.arrow"
    with open(harmed, "wb") as file:
        file.write(data)
    one_by_one = SegmentTail(harmed, "x")
    expected = [row for each in one_by_one.read_new() for row in np.asarray(each.columns["start_ns"]).tolist()]
    bulk, told = BulkSegment(harmed, "x"), []
    while (each := bulk.read(limit_bytes)) is not None:
        told += each.table["start_ns"].to_pylist()
    assert told == expected
    assert (bulk.damage is None) == (one_by_one.damage is None)


def test_goes_on_from_a_position(run: str) -> None:
    whole = BulkStream(run, layout.SYSTEM, "node")
    first = whole.read(2000)
    rest = BulkStream(run, layout.SYSTEM, "node", whole.position)
    assert rest.left_bytes == whole.left_bytes > 0
    told = [row for each in (*first, *rest.read(1 << 20)) for row in each.table["time_ns"].to_pylist()]
    assert told == [START_NS + step for step in range(100)]
    assert rest.left_bytes == 0


def test_a_torn_batch_is_not_there_yet(run: str, tmp_path) -> None:
    with open(segments(run, layout.SYSTEM)[0], "rb") as file:
        data = file.read()
    path = tmp_path / "000001.arrow"
    path.write_bytes(data[:-5])
    bulk = BulkSegment(str(path), "x")
    told = bulk.read().table.num_rows  # type: ignore[union-attr]
    assert bulk.read() is None
    assert bulk.damage is None
    path.write_bytes(data)
    assert bulk.read().table.num_rows + told == 60  # type: ignore[union-attr]
