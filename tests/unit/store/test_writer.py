"""The background writer: order, completeness, limits and failed writes."""

from __future__ import annotations

import errno
import json
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leadline.records.documents import SampledItem, WorkerDocument
from leadline.records.event import Event
from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.store import layout
from leadline.store.tensors import CaptureForm, TensorCapture
from leadline.store.writer import Writer

LOSS = SeriesLayout((TensorInfo("loss", ("losses",)),), ((0, "value"),))
PAIR = SeriesLayout((TensorInfo("a", ("weights",)), TensorInfo("b", ("weights",))), ((0, "l2"), (1, "l2")))


def stamp(step: int) -> StepStamp:
    return StepStamp(step, "train", step, 1_000_000 + step)


def open_writer(run: Path, **settings: Any) -> Writer:
    defaults: dict[str, Any] = {
        "host_bytes": 64 << 20,
        "disk_bytes": None,
        "document": lambda: WorkerDocument("rank0-1"),
    }
    return Writer(str(run), "rank0-1", guarded=_plain, **defaults | settings)


def _plain(function: Callable[[], None]) -> Callable[[], None]:
    return function


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = open_writer(tmp_path)
    yield writer
    writer.close()


def opened(path: Path) -> pa.ipc.RecordBatchStreamReader:
    """Open a compressed segment, which may not be whole, without Leadline."""
    return pa.ipc.open_stream(zlib.decompressobj(31).decompress(path.read_bytes()))


def batches(run: Path, part: str = layout.SERIES) -> list[pa.RecordBatch]:
    found = []
    for path in sorted((run / part / "rank0-1").glob("*.arrow.gz")):
        found += list(opened(path))
    return sorted(found, key=lambda batch: batch.column("sequence")[0].as_py())


def document(run: Path) -> dict[str, Any]:
    return json.loads((run / layout.worker_document("rank0-1")).read_text())


def test_rows_of_several_layouts_share_one_sequence_without_a_gap(tmp_path: Path, writer: Writer) -> None:
    for step in range(10):
        writer.put_row(LOSS, stamp(step), struct.pack("<d", step))
        if step % 5 == 0:
            writer.put_row(PAIR, stamp(step), struct.pack("<2d", step, -step))
        writer.finish_step(stamp(step))
    assert writer.close()
    found = batches(tmp_path)
    assert [batch.column("sequence")[0].as_py() for batch in found] == list(range(len(found)))
    assert found[-1].column("complete_step")[-1].as_py() == 9
    rows = {(row["step"], len(row["values"])): row["values"] for batch in found for row in batch.to_pylist()}
    assert rows[3, 1] == [3.0]
    assert rows[5, 2] == [5.0, -5.0]
    assert len(rows) == 12


def test_only_the_last_batch_of_a_flush_completes_its_step(tmp_path: Path) -> None:
    waiting: list[Writer] = []

    def put_once() -> None:  # just before a flush, in its thread: the flush takes both rows
        while waiting:
            writer = waiting.pop()
            writer.put_row(LOSS, stamp(7), bytes(8))
            writer.put_row(PAIR, stamp(7), bytes(16))
            writer.finish_step(stamp(7))

    writer = open_writer(tmp_path, before_flush=put_once)
    waiting.append(writer)
    wait_until(lambda: writer.rows == 2)
    assert writer.close()
    assert [batch.column("complete_step")[0].as_py() for batch in batches(tmp_path)] == [-1, 7]


def test_an_urgent_row_wakes_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.store.writer.FLUSH_SECONDS", 3600.0)
    writer = open_writer(tmp_path)
    writer.put_row(LOSS, stamp(0), bytes(8), is_urgent=True)
    wait_until(lambda: writer.rows == 1)
    assert writer.close()


def test_a_layout_that_was_freed_lends_its_id_to_no_other(tmp_path: Path, writer: Writer) -> None:
    for step in range(50):  # of an optimizer that was freed: the next one's layout may take its place in memory
        own = SeriesLayout((TensorInfo(f"loss{step}", ("losses",)),), ((0, "value"),))
        writer.put_row(own, stamp(step), struct.pack("<d", step), is_urgent=True)
        del own
        wait_until(lambda count=step + 1: writer.rows == count)  # type: ignore[misc]
    assert writer.close()
    found = {}
    for path in sorted((tmp_path / layout.SERIES / "rank0-1").glob("*.arrow.gz")):
        stream = opened(path)
        ((name, *_),) = json.loads(stream.schema.metadata[b"leadline.tensors"])
        found |= {row["step"]: name for batch in stream for row in batch.to_pylist()}
    assert found == {step: f"loss{step}" for step in range(50)}


def test_steps_without_rows_are_written_as_complete(tmp_path: Path, writer: Writer) -> None:
    writer.finish_step(stamp(41))
    writer.close()
    assert batches(tmp_path)[-1].column("complete_step")[-1].as_py() == 41


def test_events(tmp_path: Path, writer: Writer) -> None:
    writer.put_event(Event("step_skipped", 3, 123, args={"optimizer": "Adam"}))
    writer.close()
    (row,) = batches(tmp_path, layout.TIMELINE)[0].to_pylist()
    assert (row["name"], row["step"], json.loads(row["args"])) == ("step_skipped", 3, {"optimizer": "Adam"})


def test_the_document_reports_the_end(tmp_path: Path, writer: Writer) -> None:
    assert document(tmp_path)["state"] == "running"
    writer.put_row(LOSS, stamp(0), bytes(8))
    writer.close()
    final = document(tmp_path)
    assert (final["state"], final["rows"], final["lost"]) == ("ended", 1, None)
    assert final["bytes"] > 0


def test_all_files_are_private(tmp_path: Path, writer: Writer) -> None:
    writer.put_row(LOSS, stamp(0), bytes(8))
    form = CaptureForm([("w", "F32", (4,), 16)], "train")
    buffer = writer.acquire(form, 0)
    assert buffer is not None
    writer.put_tensors(TensorCapture(buffer, 0, 1))
    writer.close()
    for folder, folders, files in os.walk(tmp_path):
        assert all((os.stat(os.path.join(folder, name)).st_mode & 0o077) == 0 for name in folders + files)


def test_failed_writes_drop_and_report_rows_and_tear_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(tmp_path)
    writer.put_row(LOSS, stamp(0), bytes(8), is_urgent=True)
    wait_until(lambda: bool(batches(tmp_path)))
    write, is_full = os.write, [True]

    def refuse(descriptor: int, data: Any) -> int:
        if is_full[0] and "/series/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            if os.fstat(descriptor).st_size > 10 and not shortened:
                shortened.append(descriptor)
                return write(descriptor, memoryview(data)[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    shortened: list[int] = []
    monkeypatch.setattr("leadline.store.segments.os.write", refuse)
    for step in (1, 2):
        writer.put_row(LOSS, stamp(step), bytes(8), is_urgent=True)
    wait_until(lambda: writer.dropped is not None and writer.dropped.rows == 2)
    is_full[0] = False
    monkeypatch.setattr("leadline.store.writer._RETRY_SECONDS", 0.0)
    writer._series.retry_at = 0.0
    writer.put_row(LOSS, stamp(3), bytes(8))
    assert writer.close() is False
    assert shortened
    found = batches(tmp_path)
    assert [batch.column("step")[0].as_py() for batch in found] == [0, 3]
    assert [batch.column("sequence")[0].as_py() for batch in found] == [0, 1]
    lost = document(tmp_path)["lost"]
    assert (lost["since_step"], lost["reason"], lost["rows"]) == (1, "No space left on device", 2)


def test_the_disk_limit_is_kept(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, disk_bytes=10_000)
    form = CaptureForm([("w", "F32", (4096,), 16384)], "train")
    assert writer.acquire(form, 7) is None
    writer.close()
    lost = document(tmp_path)["lost"]
    assert (lost["since_step"], lost["tensors"]) == (7, 1)
    assert "disk limit" in lost["reason"]


def test_captures_beyond_the_memory_limit_are_dropped_and_reported(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, host_bytes=40_000)
    form = CaptureForm([("w", "F32", (4096,), 16384)], "train")
    assert writer.acquire(form, 0) is not None
    assert writer.acquire(form, 1) is None
    writer.close()
    assert "capture buffers full" in document(tmp_path)["lost"]["reason"]


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.01)


def test_what_is_sampled_names_only_tensors_that_the_training_has(tmp_path: Path) -> None:
    def item(collection: str | None, *regexes: str, mode: str = "train", **counts: Any) -> SampledItem:
        return SampledItem(collection, regexes, mode=mode, **{"requests": 9, "captures": 3} | counts)

    there = [item("weights"), item("weights", "^b$"), item("weights", mode="eval"), item("layers", captures=0)]
    raw = [item("huber_input", raw=True), item(None, "^b$")]
    others = [item("huber_input"), item("weights", "^c$"), item("weights", "^b$", mode="predict")]
    items = (*there, *others, *raw)
    writer = open_writer(tmp_path, document=lambda: WorkerDocument("rank0-1", sampled=items))
    for step, mode in enumerate(("train", "eval")):
        writer.put_row(PAIR, StepStamp(step, mode, step, 1_000_000), struct.pack("<2d", 1.0, 2.0))
    assert writer.close()
    found = [(one["collection"], *one["regexes"], one["mode"]) for one in document(tmp_path)["sampled"]]
    assert found == [(one.collection, *one.regexes, one.mode) for one in (*there, *raw)]
