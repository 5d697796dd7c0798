"""Reading of one segment in parts of any size, intact and damaged, compared with what Arrow itself reads."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from timelines import step_rows

from leadline.reader.segments import Range, SegmentTail
from leadline.reader.stream import BulkStream
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, RunWriter, SystemSample

PARTS = [layout.SERIES, layout.SYSTEM, layout.TIMELINE]
LIMITS = [1, 700, 5000, 1 << 20]


def write(folder: Path, *, compresses: bool) -> str:
    writer = RunWriter(folder / "run", batch_rows=3, segment_batches=20, compresses=compresses)
    for step in range(100):
        writer.write(
            Capture(step, {"loss": {"value": step / 7}, "fc.weight": {"l2": 2.0}}, mode="eval" if step % 5 else "train")
        )
        writer.write(SystemSample(START_NS + step, value=step / 3))
        for each in step_rows(step, START_NS + step, {"data": 5.0, "forward": 2.0 * step}):
            writer.write(each)
    return writer.end().path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("plain"), compresses=False)


@pytest.fixture(scope="module")
def compressed_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("compressed"), compresses=True)


def segments(run: str, part: str) -> list[str]:
    folder = os.path.join(run, part)
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def read_all(segment: SegmentTail, limit_bytes: int = 1 << 20) -> list[Range]:
    ranges = []
    while (batches := segment.read(limit_bytes)) is not None:
        ranges.append(batches)
    return ranges


def expected_batches(path: str) -> list[pa.RecordBatch]:
    """Return the batches as Arrow reads them."""
    with open(path, "rb") as file, pa.ipc.open_stream(file) as stream:
        return list(stream)


def ends_of(data: bytes) -> list[int]:
    """Return the ends of the messages; a body is as long as Arrow's own message says."""
    ends, source = [], pa.BufferReader(data)
    while source.tell() < len(data):
        pa.ipc.read_message(source)
        ends.append(source.tell())
    return ends


def python_rows(table: pa.Table) -> list[dict[str, object]]:
    return [{name: row[name] for name in row if name not in ("sequence", "crc32")} for row in table.to_pylist()]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("limit_bytes", LIMITS)
def test_rows_are_those_that_arrow_reads(run: str, part: str, limit_bytes: int) -> None:
    for path in segments(run, part):
        batches = expected_batches(path)
        segment = SegmentTail(path, "x")
        ranges = read_all(segment, limit_bytes)
        assert (segment.damage, segment.torn_at, segment.left_bytes) == (None, None, 0)
        expected = python_rows(pa.Table.from_batches(batches))
        assert [row for each in ranges for row in python_rows(each.table)] == expected
        assert np.concatenate([each.rows for each in ranges]).tolist() == [batch.num_rows for batch in batches]
        sequences = [batch["sequence"][0].as_py() for batch in batches]
        assert np.concatenate([each.sequences for each in ranges]).tolist() == sequences
        assert np.concatenate([each.ends for each in ranges]).tolist() == ends_of(Path(path).read_bytes())[1:]


@pytest.mark.parametrize("part", PARTS)
def test_columns_and_slices_are_those_of_the_table(run: str, part: str) -> None:
    (batches,) = read_all(SegmentTail(segments(run, part)[0], "x"))
    edges = [0, *np.cumsum(batches.rows).tolist()]
    for start, end in ((0, 20), (0, 1), (3, 9), (19, 20)):
        piece, rows = batches.slice(start, end), batches.table.slice(edges[start], edges[end] - edges[start])
        for name in rows.column_names:
            read = piece.texts if rows.schema.field(name).type == pa.string() else piece.numbers
            assert np.asarray(read(name)).tolist() == rows[name].to_pylist()
        assert piece.batch_of_rows().tolist() == np.repeat(np.arange(end - start), batches.rows[start:end]).tolist()
        assert piece.begin == (batches.ends[start - 1] if start else batches.begin)
        assert piece.ends.tolist() == batches.ends[start:end].tolist()


@settings(max_examples=60, deadline=None)
@given(
    place=st.integers(0, 20_000),
    bit=st.sampled_from([1, 4, 0x10, 0x80]),
    limit_bytes=st.sampled_from([300, 4000, 1 << 20]),
)
@example(place=5624, bit=0x10, limit_bytes=300)  # the length in the header of a batch
@example(place=728, bit=1, limit_bytes=300)
@example(place=4, bit=1, limit_bytes=300)  # the length in the header of the schema
def test_reading_stops_at_the_damaged_batch(run: str, place: int, bit: int, limit_bytes: int) -> None:
    path = segments(run, layout.TIMELINE)[0]
    data = bytearray(Path(path).read_bytes())
    place %= len(data)
    batches, ends = expected_batches(path), ends_of(bytes(data))
    data[place] ^= bit
    damaged = f"{run}-damaged.arrow"
    Path(damaged).write_bytes(data)
    segment = SegmentTail(damaged, "x")
    result = [row for each in read_all(segment, limit_bytes) for row in each.table["start_ns"].to_pylist()]
    intact = sum(end <= place for end in ends[1:])
    whole, kept = (pa.Table.from_batches(batches[:count], batches[0].schema) for count in (20, intact))
    assert result in (whole["start_ns"].to_pylist(), kept["start_ns"].to_pylist())
    if len(result) < whole.num_rows:
        at = ends[intact] if place >= ends[0] else 0
        assert segment.offset == at
        assert segment.torn_at == at if segment.damage is None else f"(at byte {at})" in segment.damage


def flipped(place: int) -> Callable[[bytes], bytes]:
    def corruption(data: bytes) -> bytes:
        offset = place % len(data)
        return data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]

    return corruption


def with_body(length: int) -> Callable[[bytes], bytes]:
    """Change the body length in the second message."""

    def corruption(data: bytes) -> bytes:
        begin, end = ends_of(data)[:2]
        head = 8 + struct.unpack_from("<Ii", data, begin)[1]
        at = data.index(struct.pack("<q", end - begin - head), begin)
        return data[:at] + struct.pack("<q", length) + data[at + 8 :]

    return corruption


def with_schema_up_to(message: int) -> Callable[[bytes], bytes]:
    """Let the schema contain the messages before this one."""
    return lambda data: data[:4] + struct.pack("<i", ends_of(data)[message] - 8) + data[8:]


DAMAGED, TORN = "damaged", "torn"
CORRUPTIONS: dict[str, tuple[Callable[[bytes], bytes], int, str | None]] = {
    "empty": (lambda data: b"", 0, None),
    **{f"cut off after {size} bytes": (lambda data, size=size: data[:size], 0, TORN) for size in (1, 4, 7, 8, 9, 200)},
    "cut off within its last batch": (lambda data: data[:-1], 19, TORN),
    "the mark of its schema is wrong": (flipped(3), 0, DAMAGED),
    "the mark of its schema is wrong at its first byte": (flipped(0), 0, DAMAGED),
    "the length of its schema is negative": (flipped(7), 0, DAMAGED),
    "begins with zeros": (lambda data: bytes(16) + data[16:], 0, DAMAGED),
    "begins eight bytes late": (lambda data: data[8:], 0, DAMAGED),
    "is text": (lambda data: b"this is no segment, but somebody's notes\n" * 90, 0, DAMAGED),
    "is all ones": (lambda data: b"\xff" * len(data), 0, DAMAGED),
    "says that its schema is longer than the file": (
        lambda data: data[:4] + struct.pack("<i", 1 << 20) + data[8:],
        0,
        TORN,
    ),
    "says that its schema ends after the first batch": (with_schema_up_to(1), 0, DAMAGED),
    "says that its schema ends after the last batch": (with_schema_up_to(-1), 0, DAMAGED),
    "is damaged in its schema": (flipped(200), 0, DAMAGED),
    "is damaged at the end": (flipped(-9), 19, DAMAGED),
    "has zeros at the end": (lambda data: data + bytes(64), 20, DAMAGED),
    "has an end mark": (lambda data: data + b"\xff\xff\xff\xff" + bytes(4), 20, DAMAGED),
    "is followed by text": (lambda data: data + b"notes", 20, DAMAGED),
    "is followed by a mark": (lambda data: data + b"\xff\xff\xff\xff", 20, TORN),
    "says that a batch is longer than anything": (with_body(1 << 40), 0, DAMAGED),
    "says that a batch is longer than the file": (with_body(1 << 24), 0, TORN),
    "says that a batch has a negative length": (with_body(-8), 0, DAMAGED),
    "begins twice": (lambda data: data[: ends_of(data)[0]] + data, 0, DAMAGED),
    "repeats a batch": (lambda data: data + data[ends_of(data)[-2] :], 20, DAMAGED),
}


@pytest.mark.parametrize("limit_bytes", [1, 5000, 1 << 20])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_the_batches_before_a_corruption_are_read(
    run: str, tmp_path: Path, corruption: str, part: str, limit_bytes: int
) -> None:
    corrupt, intact, outcome = CORRUPTIONS[corruption]
    whole = segments(run, part)[0]
    path = tmp_path / "000001.arrow"
    path.write_bytes(corrupt(Path(whole).read_bytes()))
    segment = SegmentTail(str(path), "x")
    ranges = read_all(segment, limit_bytes)
    assert sum(each.table.num_rows for each in ranges) == sum(
        each.num_rows for each in expected_batches(whole)[:intact]
    )
    assert (segment.damage is not None) == (outcome == DAMAGED)
    assert (segment.torn_at is not None) == (outcome == TORN)


def test_a_failed_write_that_was_taken_back_leaves_no_trace(run: str, tmp_path: Path) -> None:
    data = Path(segments(run, layout.SERIES)[0]).read_bytes()
    path = tmp_path / "000001.arrow"
    end = ends_of(data)[3]
    path.write_bytes(data[: end + 100])
    segment = SegmentTail(str(path), "x")
    read_all(segment)
    assert segment.torn_at == end
    path.write_bytes(data[:end])
    assert segment.read() is None
    assert (segment.damage, segment.torn_at) == (None, None)


def everything(path: str, limit_bytes: int = 1 << 20, offset: int = 0) -> tuple[list[int], list[dict[str, object]]]:
    """Return the sequence numbers and the rows of an intact segment from an offset on."""
    segment = SegmentTail(path, "x", offset)
    ranges = read_all(segment, limit_bytes)
    assert (segment.damage, segment.torn_at, segment.left_bytes) == (None, None, 0)
    return [number for each in ranges for number in each.sequences.tolist()], [
        row for each in ranges for row in python_rows(each.table)
    ]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("limit_bytes", LIMITS)
def test_compressed_segments_have_the_same_batches(run: str, compressed_run: str, part: str, limit_bytes: int) -> None:
    for plain, compressed in zip(segments(run, part), segments(compressed_run, part), strict=True):
        assert everything(compressed, limit_bytes) == everything(plain, limit_bytes)


@pytest.mark.parametrize("part", PARTS)
def test_other_programs_read_compressed_segments(run: str, compressed_run: str, part: str) -> None:
    for plain, compressed in zip(segments(run, part)[:-1], segments(compressed_run, part)[:-1], strict=True):
        assert gzip.decompress(Path(compressed).read_bytes()) == Path(plain).read_bytes()
        with pa.input_stream(compressed) as file:
            assert list(pa.ipc.open_stream(file)) == expected_batches(plain)


@pytest.mark.parametrize("limit_bytes", LIMITS)
def test_a_compressed_segment_is_read_from_the_end_of_any_batch(compressed_run: str, limit_bytes: int) -> None:
    for path in segments(compressed_run, layout.TIMELINE):
        sequences, rows = everything(path)
        ends = [end for each in read_all(SegmentTail(path, "x")) for end in each.ends.tolist()]
        counts = [count for each in read_all(SegmentTail(path, "x")) for count in each.rows.tolist()]
        for number, end in enumerate(ends, 1):
            assert everything(path, limit_bytes, end) == (sequences[number:], rows[sum(counts[:number]) :])
        damaged = SegmentTail(path, "x", ends[0] + 1)
        assert damaged.read() is None
        assert "no batch that begins there" in str(damaged.damage)


def flushed(*parts: bytes, is_closed: bool = False, level: int = 1) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, 31)
    data = b"".join(compressor.compress(part) + compressor.flush(zlib.Z_SYNC_FLUSH) for part in parts)
    return data + (compressor.flush() if is_closed else b"")


def messages_of(data: bytes) -> list[bytes]:
    ends = [0, *ends_of(data)]
    return [data[start:end] for start, end in pairwise(ends)]


def with_long_batch(data: bytes) -> bytes:
    """Let the second message have a body of a gigabyte."""
    schema, *_ = messages_of(data)
    changed = with_body(1 << 30)(data)[len(schema) :]
    return flushed(schema, changed + bytes(65 << 20))


COMPRESSED: dict[str, tuple[Callable[[bytes], bytes], int, str | None]] = {
    "is not closed": (lambda data: flushed(*messages_of(data)), 20, None),
    "is closed": (lambda data: flushed(*messages_of(data), is_closed=True), 20, None),
    "was flushed within its messages too": (
        lambda data: flushed(*(data[at : at + 100] for at in range(0, len(data), 100))),
        0,
        DAMAGED,
    ),
    "contains the mark of a flush in its data": (lambda data: flushed(*messages_of(data), level=0), 20, None),
    "was flushed for two batches each": (
        lambda data: flushed(messages_of(data)[0], *(data[start:end] for start, end in pairwise(ends_of(data)[::2]))),
        0,
        DAMAGED,
    ),
    "was flushed at its end only": (lambda data: gzip.compress(data), 0, DAMAGED),
    "is not compressed": (lambda data: data, 0, DAMAGED),
    "is text": (lambda data: b"this is no segment, but somebody's notes\n" * 90, 0, DAMAGED),
    "is empty": (lambda data: b"", 0, None),
    "is a terabyte of nothing": (lambda data: b"\0" * (1 << 20), 0, DAMAGED),
    "is followed by text": (lambda data: flushed(*messages_of(data), is_closed=True) + b"notes", 20, DAMAGED),
    "is followed by another": (lambda data: flushed(*messages_of(data), is_closed=True) * 2, 20, DAMAGED),
    "ends with an incomplete flush": (lambda data: flushed(*messages_of(data))[:-1], 19, TORN),
    "has a wrong checksum at its end": (
        lambda data: flipped(-8)(flushed(*messages_of(data), is_closed=True)),
        20,
        DAMAGED,
    ),
    "consists of flushes without data": (
        lambda data: flushed(*messages_of(data)) + b"\0\0\0\xff\xff" * ((1 << 18) + 1),
        20,
        DAMAGED,
    ),
    "contains a gigabyte in a megabyte": (with_long_batch, 0, DAMAGED),
}


@pytest.mark.parametrize("corruption", COMPRESSED)
def test_what_is_whole_in_a_compressed_segment_is_read(run: str, tmp_path: Path, corruption: str) -> None:
    corrupt, intact, outcome = COMPRESSED[corruption]
    whole = segments(run, layout.TIMELINE)[0]
    path = tmp_path / "000001.arrow.gz"
    path.write_bytes(corrupt(Path(whole).read_bytes()))
    segment = SegmentTail(str(path), "x")
    ranges = read_all(segment)
    assert sum(len(each.rows) for each in ranges) == intact
    assert (segment.damage is not None) == (outcome == DAMAGED)
    assert (segment.torn_at is not None) == (outcome == TORN)


def test_the_metadata_are_read_without_the_batches(run: str, tmp_path: Path) -> None:
    whole = segments(run, layout.SERIES)[0]
    info = SegmentTail(whole, "x").read_info()
    assert info is not None
    assert info.layout is not None
    assert [tensor.name for tensor in info.layout.tensors] == ["loss", "fc.weight"]
    path = tmp_path / "000001.arrow"
    path.write_bytes(Path(whole).read_bytes()[:100])
    assert SegmentTail(str(path), "x").read_info() is None
    path.write_bytes(b"notes" * 100)
    assert SegmentTail(str(path), "x").read_info() is None
    assert SegmentTail(str(tmp_path / "none"), "x").read_info() is None


def test_a_stream_resumes_at_a_position(run: str) -> None:
    whole = BulkStream(run, layout.SYSTEM, "node")
    first = whole.read(2000)
    rest = BulkStream(run, layout.SYSTEM, "node", whole.position)
    assert rest.left_bytes == whole.left_bytes > 0
    result = [row for each in (*first, *rest.read(1 << 20)) for row in each.table["time_ns"].to_pylist()]
    assert result == [START_NS + step for step in range(100)]
    assert rest.left_bytes == 0


def test_an_incomplete_batch_is_not_returned(run: str, tmp_path: Path) -> None:
    data = Path(segments(run, layout.SYSTEM)[0]).read_bytes()
    path = tmp_path / "000001.arrow"
    path.write_bytes(data[:-5])
    segment = SegmentTail(str(path), "x")
    (first,) = read_all(segment)
    assert segment.read() is None
    assert segment.damage is None
    path.write_bytes(data)
    (second,) = read_all(segment)
    assert first.table.num_rows + second.table.num_rows == 60


def test_a_segment_in_the_folder_of_another_part_is_damage(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", compresses=False).write_all([Capture(0, {"loss": {"value": 1.0}})])
    (series,) = Path(writer.end().path, "series").rglob("*.arrow")
    moved = Path(writer.path, "timeline", "rank0-1", "000001.arrow")
    moved.parent.mkdir(exist_ok=True)
    moved.write_bytes(series.read_bytes())
    segment = SegmentTail(str(moved), "timeline/rank0-1/000001.arrow")
    assert segment.read() is None
    assert segment.damage is not None
    assert "is a segment of series" in segment.damage
