"""A stream whose batches alternate between segments is read as a prefix, whatever part of each segment is visible."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reader.stream import StreamTail
from leadline.records.metric import Channel
from leadline.store import layout
from leadline.store.codec import SYSTEM, BatchEncoder, float64_buffer, int64_buffer, system_metadata

NODE = "node"
SEGMENTS = 3


def encoded(owners: list[int]) -> list[bytes]:
    """Return the content of each segment; batch ``n``, of ``n % 3 + 1`` rows, belongs to segment ``owners[n]``."""
    metadata = system_metadata([Channel("cpu", "", "percent")])
    encoders = [BatchEncoder(SYSTEM, metadata) for _ in range(SEGMENTS)]
    contents = [b""] * SEGMENTS
    for sequence, owner in enumerate(owners):
        rows = sequence % 3 + 1
        columns = {
            "time_ns": int64_buffer([sequence] * rows),
            "channel": int64_buffer([0] * rows),
            "value": float64_buffer([1.0] * rows),
        }
        contents[owner] += encoders[owner].encode(sequence, rows, columns)
    return contents


def read(stream: StreamTail, *, is_finished: bool = False) -> list[int]:
    """Return the time of each new row, which is the sequence number of its batch."""
    return [
        time for batches in stream.read_new(is_finished=is_finished) for time in batches.numbers("time_ns").tolist()
    ]


def expected(count: int) -> list[int]:
    return [sequence for sequence in range(count) for _ in range(sequence % 3 + 1)]


@settings(max_examples=60, deadline=None)
@given(
    owners=st.lists(st.integers(0, SEGMENTS - 1), max_size=14),
    shares=st.lists(st.tuples(*[st.floats(0, 1)] * SEGMENTS), max_size=5),
)
def test_accepted_batches_are_a_prefix(owners: list[int], shares: list[tuple[float, ...]]) -> None:
    contents = encoded(owners)
    with tempfile.TemporaryDirectory() as run:
        folder = Path(run, layout.SYSTEM, NODE)
        folder.mkdir(parents=True)
        stream, found, visible = StreamTail(run, layout.SYSTEM, NODE), list[int](), [0] * SEGMENTS
        for share in [*shares, (1.0,) * SEGMENTS]:
            visible = [
                max(at, int(part * len(content))) for at, part, content in zip(visible, share, contents, strict=True)
            ]
            for number, content in enumerate(contents):
                (folder / f"00000{number + 1}.arrow").write_bytes(content[: visible[number]])
            found += read(stream)
            assert sorted(found) == expected(len(set(found)))
        assert read(stream, is_finished=True) == []
        assert sorted(found) == expected(len(owners))
        assert stream.damage == []


@settings(max_examples=30, deadline=None)
@given(owners=st.lists(st.integers(0, SEGMENTS - 1), min_size=1, max_size=14), missing=st.integers(0, SEGMENTS - 1))
def test_a_missing_segment_leaves_reported_gaps(owners: list[int], missing: int) -> None:
    contents = encoded(owners)
    with tempfile.TemporaryDirectory() as run:
        folder = Path(run, layout.SYSTEM, NODE)
        folder.mkdir(parents=True)
        for number, content in enumerate(contents):
            if number != missing:
                (folder / f"00000{number + 1}.arrow").write_bytes(content)
        stream = StreamTail(run, layout.SYSTEM, NODE)
        found = read(stream)
        gap = owners.index(missing) if missing in owners else len(owners)
        assert sorted(found) == expected(gap)
        found += read(stream, is_finished=True)
        assert sorted(set(found)) == [sequence for sequence, owner in enumerate(owners) if owner != missing]
        followed = [
            sequence for sequence in range(1, len(owners)) if owners[sequence - 1] == missing != owners[sequence]
        ]
        assert len(stream.damage) == len(followed)
