"""The spool is bounded: raw tensors are removed, uploaded ones first, and everything that was removed is counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from leadline.config.run_config import RunConfig, parse_size
from leadline.errors import ConfigurationError
from leadline.launch.prepare import prepare
from leadline.remote.object_store import ObjectStore, StoreError
from leadline.remote.upload import Upload
from leadline.store import layout
from leadline.store.disk_limit import Removed, RunFile, trim
from leadline.store.upload_state import UploadState, read_upload, write_upload
from leadline.testing.runs import Capture, RawTensors, RunWriter

URI = "s3://bucket/runs/one"
TENSOR_BYTES = 40_000


class Store(ObjectStore):
    """A store in memory that can be away."""

    def __init__(self) -> None:
        super().__init__(URI, MemoryStore())
        self.is_away = False

    def put(self, name: str, content: bytes | Path, *, create: bool = False) -> None:
        if self.is_away:
            raise StoreError(f"{URI}: the store cannot be reached")
        super().put(name, content, create=create)


def write(writer: RunWriter, steps: range) -> None:
    for step in steps:
        data = bytes(TENSOR_BYTES)
        writer.write_all([Capture(step, {"loss": {"value": 0.5}}), RawTensors(step, {"w": ("U8", (len(data),), data)})])
        for path in segments(writer.path)[-1:]:
            os.utime(os.path.join(writer.path, path), ns=(step, step))  # the files of one tick are of one age


def segments(run: str) -> list[str]:
    folder = Path(run, layout.TENSORS)
    return sorted(str(path.relative_to(run)) for path in folder.rglob("*.safetensors"))


def others(run: str) -> dict[str, bytes]:
    skipped = (layout.UPLOAD,)
    files = {str(path.relative_to(run)): path for path in Path(run).rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if name not in skipped and not name.startswith(layout.TENSORS)
    }


def root() -> ObjectStore:
    return ObjectStore(URI.rpartition("/")[0], MemoryStore())


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    writer = RunWriter(tmp_path / "one")
    write_upload(writer.path, UploadState(URI, max_bytes=5 * TENSOR_BYTES))
    return writer


def test_uploaded_tensors_are_removed_oldest_first_and_the_store_has_all(writer: RunWriter) -> None:
    store = Store()
    upload = Upload(writer.path, store, root())
    write(writer, range(10))
    before, rest = segments(writer.path), others(writer.path)
    upload.advance(is_final=False)
    left = segments(writer.path)
    assert left == before[-len(left) :]
    assert 1 <= len(left) < 5
    assert others(writer.path) == rest
    state = read_upload(writer.path)
    assert (state.removed_files, state.lost_files, state.warning) == (10 - len(left), 0, "")
    assert f"{10 - len(left)} files of raw tensors" in state.describe(0)
    assert {stored.name for stored in store.objects()} >= set(before)
    assert Upload(writer.path, store, root()).advance(is_final=True)  # another process counts on
    assert read_upload(writer.path).removed_files == 10 - len(left)
    assert read_upload(writer.path).is_complete


def test_what_was_not_uploaded_is_removed_last_and_reported_as_lost(writer: RunWriter) -> None:
    store = Store()
    upload = Upload(writer.path, store, root())
    write(writer, range(3))
    upload.advance(is_final=False)
    assert len(segments(writer.path)) == 3
    store.is_away = True
    write(writer, range(3, 9))
    before, rest = segments(writer.path), others(writer.path)
    upload.advance(is_final=False)
    left = segments(writer.path)
    assert left == before[-len(left) :]
    assert others(writer.path) == rest
    state = read_upload(writer.path)
    assert (state.removed_files, state.lost_files) == (3, len(before) - 3 - len(left))
    assert state.lost_files > 0
    assert "dropped before the upload" in state.warning
    assert state.warning in state.describe(0)
    store.is_away = False
    assert upload.advance(is_final=True)
    assert {stored.name for stored in store.objects()} >= {*before[:3], *left, *rest}
    assert read_upload(writer.path).lost_files == state.lost_files


def test_what_is_written_during_an_upload_waits_for_the_next_one(writer: RunWriter) -> None:
    upload = Upload(writer.path, store := Busy(writer), root())
    write(writer, range(5))
    assert upload.advance(is_final=False)
    state = read_upload(writer.path)
    assert (state.removed_files > 0, state.lost_files) == (True, 0)
    assert len(segments(writer.path)) == store.written
    assert upload.advance(is_final=True)
    assert read_upload(writer.path).lost_files == 0
    assert len([stored for stored in store.objects() if stored.name.endswith(".safetensors")]) == 5 + store.written


class Busy(Store):
    """A store during whose first upload the training writes more than the bound allows."""

    def __init__(self, writer: RunWriter) -> None:
        super().__init__()
        self._writer, self.written = writer, 0

    def put(self, name: str, content: bytes | Path, *, create: bool = False) -> None:
        super().put(name, content, create=create)
        if not self.written:
            self.written = 6
            write(self._writer, range(5, 5 + self.written))


def test_the_latest_segment_of_each_worker_stays(tmp_path: Path) -> None:
    names = [f"tensors/{worker}/{ordinal:06d}.safetensors" for worker in ("rank0-1", "rank1-2") for ordinal in (1, 2)]
    files = [RunFile(name, 10, index) for index, name in enumerate([*names, "series/rank0-1/000001.arrow"])]
    for file in files:
        path = tmp_path / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(file.nbytes))
    assert trim(str(tmp_path), files, 50, lambda name: True) == Removed()
    assert trim(str(tmp_path), files, 1, lambda name: "rank0" in name) == Removed(1, 10, 1, 10)
    assert segments(str(tmp_path)) == [names[1], names[3]]
    assert (tmp_path / files[-1].name).exists()


@pytest.mark.parametrize(("text", "nbytes"), [("2GB", 2 * 10**9), ("1.5 TB", 15 * 10**11), ("500MB", 5 * 10**8)])
def test_sizes_are_decimal(text: str, nbytes: int) -> None:
    assert parse_size(text, "--spool-max") == nbytes


@pytest.mark.parametrize("text", ["", "2", "2 gigabytes", "-1GB", "0GB", "GB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--spool-max must be a size like 2GB"):
        parse_size(text, "--spool-max")


def test_a_bound_needs_a_run_that_is_uploaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give --out s3://"):
        prepare(RunConfig(out=str(tmp_path), spool_max="1GB"), ["train.py"])
    assert list(tmp_path.iterdir()) == []
