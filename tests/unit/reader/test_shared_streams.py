"""Streams that several readers share: each gets all batches, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.reader import stream as subject
from leadline.reader.stream import SharedStreams
from leadline.store import layout
from leadline.testing.runs import Capture, RunWriter

WORKER = "rank0-1"


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter(tmp_path / "run")


def write(writer: RunWriter, *steps: int) -> None:
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in steps])


def steps(streams: SharedStreams, reader: int) -> list[int]:
    """The steps that a reader has not read before."""
    ranges = streams.read_new(layout.SERIES, WORKER, reader=reader)
    return [step for batches in ranges for step in batches.numbers("step").tolist()]


def test_each_reader_gets_everything_once_whenever_it_reads(writer: RunWriter) -> None:
    streams = SharedStreams(writer.path, 2)
    write(writer, 0, 1)
    assert steps(streams, 0) == [0, 1]
    write(writer, 2)
    assert steps(streams, 0) == [2]
    assert steps(streams, 1) == [0, 1, 2]
    assert (steps(streams, 0), steps(streams, 1)) == ([], [])


def test_a_stream_is_decoded_once(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    read = subject.SegmentTail.read
    monkeypatch.setattr(subject.SegmentTail, "read", lambda tail: decoded.append(found := read(tail)) or found)
    streams = SharedStreams(writer.path, 3)
    write(writer, 0, 1)
    assert [steps(streams, reader) for reader in range(3)] == [[0, 1]] * 3
    assert sum(batches is not None for batches in decoded) == 1


def test_nothing_is_kept_for_a_reader_that_has_left(writer: RunWriter) -> None:
    streams = SharedStreams(writer.path, 2)
    write(writer, 0)
    assert steps(streams, 1) == [0]
    streams.leave(0)
    write(writer, 1)
    assert steps(streams, 1) == [1]
    assert not any(streams._waiting.values())


def test_damage_is_told_once(writer: RunWriter) -> None:
    write(writer, 0)
    (segment,) = Path(writer.path, layout.SERIES, WORKER).iterdir()
    data = bytearray(segment.read_bytes())
    data[-20] ^= 255
    segment.write_bytes(data)
    streams = SharedStreams(writer.path, 2)
    assert [steps(streams, reader) for reader in range(2)] == [[], []]
    assert len(streams.damage) == 1
