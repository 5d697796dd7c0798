"""What a round uploads, against a store in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from leadline.errors import ConfigurationError, RunExistsError
from leadline.records.request import SetInterval
from leadline.remote.claim import create_uploaded_run
from leadline.remote.object_store import ObjectStore, StoreError
from leadline.remote.objects import by_file, chunk
from leadline.remote.upload import Upload
from leadline.remote.uploader import Uploader
from leadline.store import layout
from leadline.store.control import read_requests, write_request
from leadline.store.upload_state import UploadState, read_upload, write_upload
from leadline.testing.runs import Capture, RawTensors, RunWriter

URI = "s3://bucket/runs/one"
SEGMENT = "series/rank0-1/000001.arrow.gz"


class Store(ObjectStore):
    """A store in memory that records what was written, and can fail."""

    def __init__(self) -> None:
        super().__init__(URI, MemoryStore())
        self.written: list[str] = []
        self.fails_after: int | None = None

    def put(self, name: str, content: bytes | Path, *, create: bool = False) -> None:
        if self.fails_after is not None and len(self.written) >= self.fails_after:
            raise StoreError(f"{URI}: the store cannot be reached")
        super().put(name, content, create=create)
        self.written.append(name)

    def take(self) -> list[str]:
        """Return the names that were written since the last call."""
        written, self.written = self.written, []
        return written

    def contents(self) -> dict[str, bytes]:
        """Return every file, put together from its objects."""
        files = {}
        for name, stored in by_file(self.objects()).items():
            parts = [self.get(name)] if stored.whole else []
            parts += [self.get(stored.chunks[offset].name) for offset in sorted(stored.chunks)]
            files[name] = b"".join(parts)
        return files


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter(tmp_path / "one")


def captures(steps: Iterable[int]) -> list[Any]:
    return [Capture(step, {"loss": {"value": 1 / (step + 1)}}) for step in steps]


def local(run: str) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in Path(run).rglob("*") if path.is_file()}


def test_a_growing_file_is_uploaded_piece_by_piece_and_becomes_one_object(writer: RunWriter) -> None:
    store = Store()
    uploader = Uploader(writer.path, store)
    writer.write_all(captures(range(3)))
    uploader.sync()
    assert chunk(SEGMENT, 0) in store.take()
    uploader.sync()
    assert store.take() == []

    first = os.path.getsize(os.path.join(writer.path, SEGMENT))
    writer.write_all(captures(range(3, 6)))
    uploader.sync()
    assert store.take() == [chunk(SEGMENT, first)]
    assert store.contents() == local(writer.path)

    writer.end()
    uploader.sync(is_final=True)
    assert store.take()[-1] == layout.STATUS, "the status is written after all that it sums up"
    assert {stored.name for stored in store.objects()} == set(local(writer.path))
    assert store.contents() == local(writer.path)


def test_every_piece_begins_where_the_one_before_it_ends(writer: RunWriter) -> None:
    store = Store()
    uploader = Uploader(writer.path, store)
    end = 0
    for step in range(4):
        writer.write_all(captures([step]))
        uploader.sync()
        assert [name for name in store.take() if name.startswith(SEGMENT)] == [chunk(SEGMENT, end)]
        end = os.path.getsize(os.path.join(writer.path, SEGMENT))
    assert store.contents() == local(writer.path)


def test_a_segment_that_a_later_one_follows_is_one_object(tmp_path: Path) -> None:
    store, writer = Store(), RunWriter(tmp_path / "one", segment_batches=2)
    uploader = Uploader(writer.path, store)
    writer.write_all(captures(range(1)))
    uploader.sync()
    writer.write_all(captures(range(1, 5)))
    uploader.sync()
    names = {stored.name for stored in store.objects()}
    assert {SEGMENT, "series/rank0-1/000002.arrow.gz"} <= names
    assert chunk(SEGMENT, 0) not in names
    assert store.contents() == local(writer.path)


def test_what_failed_is_uploaded_later_and_nothing_twice(writer: RunWriter) -> None:
    store = Store()
    writer.write_all([*captures(range(3)), RawTensors(0, {"weight": ("F32", (2,), bytes(8))})])
    store.fails_after = 2
    with pytest.raises(StoreError):
        Uploader(writer.path, store).sync()
    store.fails_after = None
    before = store.take()
    Uploader(writer.path, store).sync()
    data = [name for name in (*before, *store.take()) if name.startswith(("series/", "tensors/"))]
    assert len(data) == len(set(data)) == 2
    assert store.contents() == local(writer.path)


def test_files_of_this_machine_are_not_uploaded(writer: RunWriter) -> None:
    for name in ("nodes/node.alive", "nodes/node.lock", ".reserve", "upload.json", "x.json.abc.part"):
        Path(writer.path, name).write_bytes(b"{}")
    Path(writer.path, "compact").mkdir()
    Path(writer.path, "compact", "part.parquet").write_bytes(b"derived")
    store = Store()
    Uploader(writer.path, store).sync(is_final=True)
    assert set(store.take()) == {layout.MANIFEST, layout.STATUS}


def test_a_document_that_is_being_rewritten_waits(writer: RunWriter) -> None:
    store, document = Store(), Path(writer.path, "workers/rank0-1.json")
    document.write_bytes(b'{"worker": "ra')
    uploader = Uploader(writer.path, store)
    uploader.sync()
    assert "workers/rank0-1.json" not in store.take()
    assert uploader.pending().files == 1
    document.write_bytes(b'{"worker": "rank0-1"}')
    uploader.sync()
    assert store.take() == ["workers/rank0-1.json"]


def test_requests_in_the_store_reach_the_run_once(writer: RunWriter) -> None:
    store = Store()
    uploader = Uploader(writer.path, store)
    uploader.sync()
    request = SetInterval("1-a", "from elsewhere", "user", 1, interval_ms=100)
    other = os.path.join(writer.path, "..", "elsewhere")
    os.mkdir(other)
    write_request(other, request)
    store.put(layout.request(request.id), Path(other, layout.request(request.id)))
    store.take()
    uploader.sync()
    assert read_requests(writer.path) == [request]
    uploader.sync()
    assert store.take() == []


def test_the_state_tells_what_waits_and_why(writer: RunWriter) -> None:
    store = Store()
    write_upload(writer.path, UploadState(URI))
    writer.write_all(captures(range(3)))
    now = [1_000_000_000]
    upload = Upload(writer.path, store, ObjectStore("s3://bucket/runs", MemoryStore()), clock=lambda: now[0])
    store.fails_after = 0
    assert not upload.advance(is_final=False)
    assert upload.backoff_seconds == 1.0
    now[0] += 12_000_000_000
    assert not upload.advance(is_final=False)
    assert upload.backoff_seconds == 2.0
    waiting = read_upload(writer.path)
    assert (waiting.pending_files, waiting.behind_since_ns) == (4, 1_000_000_000)
    assert waiting.describe(now[0]).startswith(f"{URI}: 4 files (")
    assert waiting.describe(now[0]).endswith("not uploaded for 12 s: the store cannot be reached")

    store.fails_after = None
    assert upload.advance(is_final=False)
    assert upload.backoff_seconds == 0.0
    assert read_upload(writer.path).describe(now[0]) == f"{URI}: up to date"
    writer.end()
    upload.advance(is_final=True)
    assert read_upload(writer.path).is_complete


def test_a_run_without_destination_is_not_uploaded(writer: RunWriter) -> None:
    with pytest.raises(ConfigurationError, match="nothing to upload"):
        Upload(writer.path)


def test_a_name_is_claimed_once(writer: RunWriter, tmp_path: Path) -> None:
    store, manifest = Store(), writer.manifest
    create_uploaded_run(str(tmp_path / "a" / "one"), "s3://bucket/runs", manifest, store)
    assert read_upload(str(tmp_path / "a" / "one")).uri == URI
    with pytest.raises(RunExistsError, match="a run already exists at s3://bucket/runs/one; choose another --name"):
        create_uploaded_run(str(tmp_path / "b" / "one"), "s3://bucket/runs", manifest, store)
    assert not (tmp_path / "b").exists()


def test_a_run_that_cannot_be_created_leaves_no_claim(writer: RunWriter, tmp_path: Path) -> None:
    store = Store()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError):
        create_uploaded_run(str(tmp_path / "file" / "one"), "s3://bucket/runs", writer.manifest, store)
    assert store.objects() == []
