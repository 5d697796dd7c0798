"""Segments: a torn tail is not there yet, a flipped bit is noticed, what is read is a prefix of what was written."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from leadline.reader.stream import StreamTail
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, Heartbeat, RunWriter

WORKER = "rank0-1"
TRUTH = [(step, float(step)) for step in range(4)]


def make(path: Path, **options: int) -> RunWriter:
    writer = RunWriter(path, batch_rows=2, **options)
    writer.write_all([Capture(step, {"loss": {"value": value}}) for step, value in TRUTH])
    return writer


def segment(path: Path, ordinal: int = 1) -> Path:
    return path / layout.segment(layout.SERIES, WORKER, ordinal)


def rows(stream: StreamTail, *, is_finished: bool = False) -> list[tuple[int, float]]:
    return [
        (int(step), float(values[0]))
        for batch in stream.read_new(is_finished=is_finished)
        for step, values in zip(batch.columns["step"], np.asarray(batch.columns["values"]), strict=True)
    ]


def tail(path: Path) -> StreamTail:
    return StreamTail(str(path), layout.SERIES, WORKER)


def test_a_file_cut_at_any_byte_gives_its_whole_batches_and_then_the_rest(tmp_path: Path) -> None:
    whole = segment(Path(make(tmp_path / "run").path))
    data = whole.read_bytes()
    for cut in range(len(data)):
        whole.write_bytes(data[:cut])
        stream = tail(tmp_path / "run")
        first = rows(stream)
        assert first == TRUTH[: len(first)]
        assert len(first) % 2 == 0
        assert not stream.damage
        whole.write_bytes(data)
        assert first + rows(stream) == TRUTH


def test_a_file_growing_byte_by_byte_is_read_to_the_end(tmp_path: Path) -> None:
    whole = segment(Path(make(tmp_path / "run").path))
    data = whole.read_bytes()
    whole.write_bytes(b"")
    stream, found = tail(tmp_path / "run"), []
    with whole.open("ab", buffering=0) as file:
        for start in range(0, len(data), 7):
            file.write(data[start : start + 7])
            found += rows(stream)
    assert found == TRUTH
    assert stream.damage == []


def test_a_flipped_bit_never_gives_a_wrong_number(tmp_path: Path) -> None:
    whole = segment(Path(make(tmp_path / "run").path))
    data = whole.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        whole.write_bytes(flipped)
        stream = tail(tmp_path / "run")
        found = rows(stream, is_finished=True)
        assert found == TRUTH[: len(found)], place
        assert len(found) == len(TRUTH) or len(stream.damage) == 1, place


def test_damage_names_path_and_offset(tmp_path: Path) -> None:
    whole = segment(Path(make(tmp_path / "run").path))
    data = bytearray(whole.read_bytes())
    data[-1 - 8] ^= 0xFF
    whole.write_bytes(data)
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH[:2]
    (line,) = stream.damage
    assert line.startswith("series/rank0-1/000001.arrow: ")
    assert "(at byte " in line


def test_a_torn_tail_is_told_once_nobody_writes_any_more(tmp_path: Path) -> None:
    whole = segment(Path(make(tmp_path / "run").path))
    whole.write_bytes(whole.read_bytes()[:-1])
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH[:2]
    assert stream.damage == []
    assert rows(stream, is_finished=True) == []
    assert rows(stream, is_finished=True) == []
    (line,) = stream.damage
    assert "ends within a batch" in line


def test_what_comes_early_is_held_back_until_the_gap_is_filled(tmp_path: Path) -> None:
    writer = make(tmp_path / "run", segment_batches=1)
    first, hidden = segment(Path(writer.path)), tmp_path / "hidden"
    shutil.move(first, hidden)
    stream = tail(tmp_path / "run")
    assert rows(stream) == []
    shutil.move(hidden, first)
    assert rows(stream) == TRUTH


def test_a_missing_batch_is_passed_over_and_told_once_the_run_is_over(tmp_path: Path) -> None:
    writer = make(tmp_path / "run", segment_batches=1)
    segment(Path(writer.path)).unlink()
    stream = tail(tmp_path / "run")
    assert rows(stream) == []
    assert rows(stream, is_finished=True) == TRUTH[2:]
    assert stream.damage == ["series/rank0-1: batch 0 missing before series/rank0-1/000002.arrow"]


def test_what_follows_a_damaged_segment_is_read(tmp_path: Path) -> None:
    writer = make(tmp_path / "run", segment_batches=1)
    first = segment(Path(writer.path))
    first.write_bytes(b"\0" * first.stat().st_size)
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH[2:]
    assert len(stream.damage) == 2


def test_a_batch_that_stands_twice_is_damage(tmp_path: Path) -> None:
    writer = make(tmp_path / "run", segment_batches=1)
    shutil.copy(segment(Path(writer.path)), segment(Path(writer.path), 9))
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH
    assert "a second time" in stream.damage[0]


def test_a_segment_that_shrinks_below_what_was_read_is_damage(tmp_path: Path) -> None:
    whole = segment(Path(make(tmp_path / "run").path))
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH
    whole.write_bytes(whole.read_bytes()[:100])
    assert rows(stream) == []
    assert "shorter" in stream.damage[0]


@pytest.mark.parametrize("leftover", [b"", b"\xff\xff", b"\xff\xff\xff\xff\x20\0\0\0"])
def test_leftovers_of_a_full_disk_do_no_harm(tmp_path: Path, leftover: bytes) -> None:
    writer = make(tmp_path / "run")
    segment(Path(writer.path), 2).write_bytes(leftover)
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH
    assert rows(stream, is_finished=True) == []
    assert len(stream.damage) == bool(leftover)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    writer = make(tmp_path / "run")
    segment(Path(writer.path)).with_name("000002.arrow.part").write_bytes(b"no")
    assert rows(tail(tmp_path / "run")) == TRUTH


def test_nan_and_infinity_come_as_they_were_written(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(
        [Capture(0, {"loss": {"value": math.nan}}), Capture(1, {"loss": {"value": -math.inf}}), Heartbeat(START_NS)]
    )
    found = rows(tail(Path(writer.path)))
    assert math.isnan(found[0][1])
    assert found[1] == (1, -math.inf)
