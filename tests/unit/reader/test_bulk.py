"""Reading many batches at a time gives what reading them one by one gives, and stops before the same damage."""

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


def flipped(place: int) -> Callable[[bytes], bytes]:
    def harm(data: bytes) -> bytes:
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]

    return harm


def with_body(length: int) -> Callable[[bytes], bytes]:
    """The second message says that its body has another length."""

    def harm(data: bytes) -> bytes:
        begin = message_end(data, 0)
        assert begin is not None
        end = message_end(data, begin)
        assert end is not None
        head = 8 + struct.unpack_from("<Ii", data, begin)[1]
        at = data.index(struct.pack("<q", end - begin - head), begin)
        return data[:at] + struct.pack("<q", length) + data[at + 8 :]

    return harm


HARMS: dict[str, Callable[[bytes], bytes]] = {
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
@pytest.mark.parametrize("harm", HARMS)
def test_says_what_reading_one_by_one_says(run: str, tmp_path: Path, harm: str, part: str, limit_bytes: int) -> None:
    path = tmp_path / "000001.arrow"
    path.write_bytes(HARMS[harm](Path(segments(run, part)[0]).read_bytes()))
    one_by_one = SegmentTail(str(path), "x")
    batches = one_by_one.read_new()
    bulk, told = BulkSegment(str(path), "x"), 0
    while (each := bulk.read(limit_bytes)) is not None:
        told += each.table.num_rows
    assert told == sum(each.rows for each in batches)
    assert bulk.damage == one_by_one.damage
    assert bulk.offset == one_by_one.offset


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
