"""Bulk reading of segments, compared with reading single batches, intact and damaged."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reader.bulk import BulkSegment, BulkStream
from leadline.reader.segments import SegmentTail, message_end
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, RunWriter, SystemSample
from leadline.testing.timelines import step_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    writer = RunWriter(tmp_path_factory.mktemp("bulk") / "run", batch_rows=3, segment_batches=20)
    for step in range(100):
        writer.write(
            Capture(step, {"loss": {"value": step / 7}, "fc.weight": {"l2": 2.0}}, mode="eval" if step % 5 else "train")
        )
        writer.write(SystemSample(START_NS + step, value=step / 3))
        for each in step_rows(step, START_NS + step, {"data": 5.0, "forward": 2.0 * step}):
            writer.write(each)
    return writer.end().path


def segments(run: str, part: str) -> list[str]:
    folder = os.path.join(run, part)
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("part", [layout.SERIES, layout.SYSTEM, layout.TIMELINE])
@pytest.mark.parametrize("limit_bytes", [1, 700, 5000, 1 << 20])
def test_bulk_rows_equal_those_of_single_batches(run: str, part: str, limit_bytes: int) -> None:
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
            result = [row for each in ranges for row in each.table[name].to_pylist()]
            assert result == [row for each in batches for row in np.asarray(each.columns[name]).tolist()]


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 20_000), limit_bytes=st.sampled_from([300, 4000, 1 << 20]))
def test_bulk_reading_stops_at_the_same_damage(run: str, place: int, limit_bytes: int) -> None:
    path = segments(run, layout.TIMELINE)[0]
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data[place % len(data)] ^= 0x10
    damaged = f"{run}-damaged.arrow"
    with open(damaged, "wb") as file:
        file.write(data)
    single = SegmentTail(damaged, "x")
    expected = [row for each in single.read_new() for row in np.asarray(each.columns["start_ns"]).tolist()]
    bulk, result = BulkSegment(damaged, "x"), []
    while (each := bulk.read(limit_bytes)) is not None:
        result += each.table["start_ns"].to_pylist()
    assert result == expected
    assert (bulk.damage is None) == (single.damage is None)


def flipped(place: int) -> Callable[[bytes], bytes]:
    def corruption(data: bytes) -> bytes:
        offset = place % len(data)
        return data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]

    return corruption


def with_body(length: int) -> Callable[[bytes], bytes]:
    """Change the body length in the second message."""

    def corruption(data: bytes) -> bytes:
        begin = message_end(data, 0)
        assert begin is not None
        end = message_end(data, begin)
        assert end is not None
        head = 8 + struct.unpack_from("<Ii", data, begin)[1]
        at = data.index(struct.pack("<q", end - begin - head), begin)
        return data[:at] + struct.pack("<q", length) + data[at + 8 :]

    return corruption


CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    **{f"cut off after {size} bytes": lambda data, size=size: data[:size] for size in (1, 4, 7, 8, 9, 200)},
    "cut off within its last batch": lambda data: data[:-1],
    **{f"byte {place} is wrong": flipped(place) for place in range(12)},
    "begins with zeros": lambda data: bytes(16) + data[16:],
    "begins eight bytes late": lambda data: data[8:],
    "is text": lambda data: b"this is no segment, but somebody's notes\n" * 90,
    "is all ones": lambda data: b"\xff" * len(data),
    "says that its schema is longer than anything": lambda data: data[:4] + struct.pack("<i", 2**31 - 1) + data[8:],
    "says that its schema is longer than the file": lambda data: data[:4] + struct.pack("<i", 1 << 20) + data[8:],
    "is damaged in its schema": flipped(200),
    "is damaged in the middle": lambda data: flipped(len(data) // 2)(data),
    "is damaged at the end": flipped(-1),
    "has zeros in the middle": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "says that a batch is longer than anything": with_body(1 << 40),
    "says that a batch is longer than the file": with_body(1 << 24),
}


@pytest.mark.parametrize("limit_bytes", [1, 5000, 1 << 20])
@pytest.mark.parametrize("part", [layout.SERIES, layout.SYSTEM, layout.TIMELINE])
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_bulk_reading_reports_the_same_damage(
    run: str, tmp_path: Path, corruption: str, part: str, limit_bytes: int
) -> None:
    path = tmp_path / "000001.arrow"
    path.write_bytes(CORRUPTIONS[corruption](Path(segments(run, part)[0]).read_bytes()))
    single = SegmentTail(str(path), "x")
    batches = single.read_new()
    bulk, result = BulkSegment(str(path), "x"), 0
    while (each := bulk.read(limit_bytes)) is not None:
        result += each.table.num_rows
    assert result == sum(each.rows for each in batches)
    assert bulk.damage == single.damage
    assert bulk.offset == single.offset


def test_bulk_reading_resumes_at_a_position(run: str) -> None:
    whole = BulkStream(run, layout.SYSTEM, "node")
    first = whole.read(2000)
    rest = BulkStream(run, layout.SYSTEM, "node", whole.position)
    assert rest.left_bytes == whole.left_bytes > 0
    result = [row for each in (*first, *rest.read(1 << 20)) for row in each.table["time_ns"].to_pylist()]
    assert result == [START_NS + step for step in range(100)]
    assert rest.left_bytes == 0


def test_an_incomplete_batch_is_not_returned(run: str, tmp_path) -> None:
    with open(segments(run, layout.SYSTEM)[0], "rb") as file:
        data = file.read()
    path = tmp_path / "000001.arrow"
    path.write_bytes(data[:-5])
    bulk = BulkSegment(str(path), "x")
    result = bulk.read().table.num_rows  # type: ignore[union-attr]
    assert bulk.read() is None
    assert bulk.damage is None
    path.write_bytes(data)
    assert bulk.read().table.num_rows + result == 60  # type: ignore[union-attr]
