"""Segments: incomplete batches are not returned, flipped bits are detected, reads return a prefix."""

from __future__ import annotations

import gzip
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.reader.stream import StreamTail
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, RunWriter, SystemSample

WORKER = "rank0-1"
TRUTH = [(step, float(step)) for step in range(4)]


@dataclass(frozen=True)
class Form:
    """Plain segments, as earlier versions wrote all, or compressed ones."""

    is_compressed: bool

    def make(self, path: Path, segment_batches: int = 1000) -> RunWriter:
        writer = RunWriter(path, batch_rows=2, segment_batches=segment_batches, compresses=self.is_compressed)
        writer.write_all([Capture(step, {"loss": {"value": value}}) for step, value in TRUTH])
        return writer

    def segment(self, path: Path, ordinal: int = 1) -> Path:
        return path / layout.segment(layout.SERIES, WORKER, ordinal, is_compressed=self.is_compressed)


@pytest.fixture(params=[False, True], ids=["plain", "compressed"])
def form(request: pytest.FixtureRequest) -> Form:
    return Form(request.param)


def rows(stream: StreamTail, *, is_finished: bool = False) -> list[tuple[int, float]]:
    return [
        (int(step), float(values[0]))
        for batches in stream.read_new(is_finished=is_finished)
        for step, values in zip(batches.numbers("step"), batches.numbers("values"), strict=True)
    ]


def tail(path: Path) -> StreamTail:
    return StreamTail(str(path), layout.SERIES, WORKER)


def test_a_file_truncated_at_any_byte_returns_its_complete_batches_first(tmp_path: Path, form: Form) -> None:
    whole = form.segment(Path(form.make(tmp_path / "run").path))
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


def test_a_file_growing_byte_by_byte_is_read_to_the_end(tmp_path: Path, form: Form) -> None:
    whole = form.segment(Path(form.make(tmp_path / "run").path))
    data = whole.read_bytes()
    whole.write_bytes(b"")
    stream, found = tail(tmp_path / "run"), []
    with whole.open("ab", buffering=0) as file:
        for start in range(0, len(data), 7):
            file.write(data[start : start + 7])
            found += rows(stream)
    assert found == TRUTH
    assert stream.damage == []


def test_a_flipped_bit_never_returns_a_wrong_value(tmp_path: Path, form: Form) -> None:
    whole = form.segment(Path(form.make(tmp_path / "run").path))
    data = whole.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        whole.write_bytes(flipped)
        stream = tail(tmp_path / "run")
        found = rows(stream, is_finished=True)
        assert found == TRUTH[: len(found)], place
        assert len(found) == len(TRUTH) or len(stream.damage) == 1, place


def test_damage_names_path_and_offset(tmp_path: Path, form: Form) -> None:
    whole = form.segment(Path(form.make(tmp_path / "run").path))
    data = bytearray(whole.read_bytes())
    data[-1 - 8] ^= 0xFF
    whole.write_bytes(data)
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH[:2]
    (line,) = stream.damage
    assert line.startswith(f"series/rank0-1/{whole.name}: ")
    assert "(at byte " in line


def test_an_incomplete_tail_is_reported_after_the_run_has_ended(tmp_path: Path, form: Form) -> None:
    whole = form.segment(Path(form.make(tmp_path / "run").path))
    whole.write_bytes(whole.read_bytes()[:-1])
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH[:2]
    assert stream.damage == []
    assert rows(stream, is_finished=True) == []
    assert rows(stream, is_finished=True) == []
    (line,) = stream.damage
    assert "ends with an incomplete batch" in line


def test_early_batches_wait_until_the_gap_is_filled(tmp_path: Path, form: Form) -> None:
    writer = form.make(tmp_path / "run", segment_batches=1)
    first, hidden = form.segment(Path(writer.path)), tmp_path / "hidden"
    shutil.move(first, hidden)
    stream = tail(tmp_path / "run")
    assert rows(stream) == []
    shutil.move(hidden, first)
    assert rows(stream) == TRUTH


def test_a_missing_batch_is_skipped_and_reported_after_the_run_has_ended(tmp_path: Path, form: Form) -> None:
    writer = form.make(tmp_path / "run", segment_batches=1)
    form.segment(Path(writer.path)).unlink()
    stream = tail(tmp_path / "run")
    assert rows(stream) == []
    assert rows(stream, is_finished=True) == TRUTH[2:]
    following = form.segment(Path("."), 2)
    assert stream.damage == [f"series/rank0-1: batch 0 missing before {following}"]


def test_segments_after_a_damaged_one_are_read(tmp_path: Path, form: Form) -> None:
    writer = form.make(tmp_path / "run", segment_batches=1)
    first = form.segment(Path(writer.path))
    first.write_bytes(b"\0" * first.stat().st_size)
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH[2:]
    assert len(stream.damage) == 2


def test_a_duplicate_batch_is_damage(tmp_path: Path, form: Form) -> None:
    writer = form.make(tmp_path / "run", segment_batches=1)
    shutil.copy(form.segment(Path(writer.path)), form.segment(Path(writer.path), 9))
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH
    assert "twice" in stream.damage[0]


def test_a_truncated_segment_is_damage(tmp_path: Path, form: Form) -> None:
    whole = form.segment(Path(form.make(tmp_path / "run").path))
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH
    whole.write_bytes(whole.read_bytes()[:100])
    assert rows(stream) == []
    assert "truncated" in stream.damage[0]


@pytest.mark.parametrize("leftover", [b"", b"\xff\xff", b"\xff\xff\xff\xff\x20\0\0\0"])
def test_partial_files_of_a_full_disk_are_ignored(tmp_path: Path, form: Form, leftover: bytes) -> None:
    writer = form.make(tmp_path / "run")
    form.segment(Path(writer.path), 2).write_bytes(leftover)
    stream = tail(tmp_path / "run")
    assert rows(stream) == TRUTH
    assert rows(stream, is_finished=True) == []
    assert len(stream.damage) == bool(leftover)


def test_a_run_of_an_earlier_version_that_was_resumed_is_one_stream(tmp_path: Path) -> None:
    form = Form(is_compressed=True)
    writer = form.make(tmp_path / "run", segment_batches=1)
    earlier = form.segment(Path(writer.path))
    earlier.with_suffix("").write_bytes(gzip.decompress(earlier.read_bytes()))
    earlier.unlink()
    assert sorted(path.name for path in earlier.parent.iterdir()) == ["000001.arrow", "000002.arrow.gz"]
    assert rows(tail(tmp_path / "run"), is_finished=True) == TRUTH


def test_other_files_are_ignored(tmp_path: Path, form: Form) -> None:
    writer = form.make(tmp_path / "run")
    form.segment(Path(writer.path)).with_suffix(".part").write_bytes(b"no")
    assert rows(tail(tmp_path / "run")) == TRUTH


def test_nan_and_infinity_are_read_as_written(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(
        [Capture(0, {"loss": {"value": math.nan}}), Capture(1, {"loss": {"value": -math.inf}}), SystemSample(START_NS)]
    )
    found = rows(tail(Path(writer.path)))
    assert math.isnan(found[0][1])
    assert found[1] == (1, -math.inf)
