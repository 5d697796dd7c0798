"""Mirrors of runs in a store, which here is a folder that obstore serves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import leadline
from leadline.errors import ConfigurationError, DamagedRunError, LeadlineError, RunNotFoundError
from leadline.reader.find_runs import list_runs
from leadline.records.request import SetInterval, request_to_dict
from leadline.remote import mirror, root_mirror
from leadline.remote.fetching import FileFetcher
from leadline.remote.object_store import ObjectStore
from leadline.remote.root_mirror import mirror_root, rebuild_catalogue
from leadline.remote.upload import Upload
from leadline.remote.uploader import Uploader
from leadline.store import layout
from leadline.store.control import read_requests
from leadline.store.upload_state import UploadState, write_upload
from leadline.testing.runs import Capture, RawTensors, RunWriter


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(mirror, "FRESH_SECONDS", 0.0)  # no refresh is skipped
    for name in ("one", "two"):
        (tmp_path / "store" / name).mkdir(parents=True)
    return f"file://{tmp_path}/store"


def captures(first: int, last: int) -> list[Capture]:
    return [Capture(step, {"loss": {"value": 1 / (step + 1)}}) for step in range(first, last)]


def test_a_mirror_follows_a_run_that_grows(uri: str, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "spool" / "one", segment_batches=4)
    uploader = Uploader(writer.path, ObjectStore(f"{uri}/one"))
    writer.write_all(captures(0, 3))
    uploader.sync()
    run = leadline.open_run(mirror.mirror_run(f"{uri}/one"))
    assert (run.steps(), run.status) == ([0, 1, 2], "InProgress")
    for first, last in ((3, 6), (6, 11)):
        writer.write_all(captures(first, last))
        uploader.sync()
        assert run.refresh().steps() == list(range(last))
    writer.end()
    uploader.sync(is_final=True)
    assert run.refresh().steps() == list(range(11))
    assert run.status == "Completed"
    assert run.verify() == []
    for path in Path(writer.path).rglob("*.*"):
        assert Path(run.path, path.relative_to(writer.path)).read_bytes() == path.read_bytes()


def test_a_root_has_the_documents_of_its_runs_and_no_data(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        writer = RunWriter(tmp_path / "spool" / name).write_all(captures(0, 3)).end()
        Uploader(writer.path, ObjectStore(f"{uri}/{name}")).sync(is_final=True)
    (tmp_path / "store" / "other").mkdir()
    (tmp_path / "store" / "other" / "file").write_bytes(b"no run")
    folder = mirror_root(uri)
    assert sorted(run.name for run in list_runs(folder)) == ["one", "two"]
    assert not list(Path(folder).rglob("*.arrow.gz"))
    shutil.rmtree(tmp_path / "store" / "two")
    monkeypatch.setattr(root_mirror, "_COMPLETE_SECONDS", 0.0)
    assert [run.name for run in list_runs(mirror_root(uri))] == ["one"]


def test_a_store_that_is_away_leaves_the_mirror(uri: str, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "spool" / "one").write_all(captures(0, 3))
    Uploader(writer.path, ObjectStore(f"{uri}/one")).sync()
    run = leadline.open_run(mirror.mirror_run(f"{uri}/one"))
    (tmp_path / "store").rename(tmp_path / "away")
    assert run.refresh().steps() == [0, 1, 2]
    assert f"{uri}/one" in mirror.last_error(run.path)
    (tmp_path / "away").rename(tmp_path / "store")
    run.refresh()
    assert mirror.last_error(run.path) == ""


def test_requests_are_written_to_the_store(uri: str, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "spool" / "one").write_all(captures(0, 3))
    uploader = Uploader(writer.path, ObjectStore(f"{uri}/one"))
    uploader.sync()
    path = mirror.mirror_run(f"{uri}/one")
    request = SetInterval("1-a", "from elsewhere", "user", 1, interval_ms=100)
    mirror.send(path, layout.request(request.id), request_to_dict(request))
    uploader.sync()
    assert [found.id for found in read_requests(writer.path)] == ["1-a"]
    mirror.send(writer.path, "control/other.json", {})
    assert not Path(writer.path, "control/other.json").exists()


def test_what_is_no_run_or_no_local_one_is_named(uri: str, tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="there is no run at"):
        mirror.mirror_run(f"{uri}/two")
    with pytest.raises(RunNotFoundError, match="names a bucket and no run"):
        mirror.mirror_run("s3://bucket")
    writer = RunWriter(tmp_path / "spool" / "one")
    Uploader(writer.path, ObjectStore(f"{uri}/one")).sync()
    with pytest.raises(ConfigurationError, match="leadline rm works on local runs only"):
        mirror.refuse_mirror(mirror.mirror_run(f"{uri}/one"), "leadline rm")
    mirror.refuse_mirror(writer.path, "leadline rm")


def test_the_cache_forgets_what_was_not_used_for_longest(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        writer = RunWriter(tmp_path / "spool" / name).write_all(captures(0, 3))
        Uploader(writer.path, ObjectStore(f"{uri}/{name}")).sync()
    first = mirror.mirror_run(f"{uri}/one")
    os.utime(os.path.join(first, layout.MIRROR), (0, 0))
    monkeypatch.setenv("LEADLINE_CACHE_BYTES", "1")
    second = mirror.mirror_run(f"{uri}/two")
    assert not os.path.exists(first)
    assert layout.is_run(second)


def test_a_name_that_leads_out_of_the_run_is_refused(uri: str, tmp_path: Path) -> None:
    files = FileFetcher(ObjectStore(f"{uri}/one"), str(tmp_path / "cache" / "one"))
    with pytest.raises(LeadlineError, match="leads out of the run"):
        files.write("../../etc/passwd", b"")


def test_a_run_is_complete_after_only_its_documents_were_fetched(uri: str, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "spool" / "one").write_all(captures(0, 3))
    Uploader(writer.path, ObjectStore(f"{uri}/one")).sync()
    folder = mirror_root(uri)
    assert leadline.open_run("one", root=folder).steps() == [0, 1, 2]


def raw_run(folder: Path, uri: str) -> tuple[RunWriter, dict[int, np.ndarray]]:
    """Upload a run with two large tensors at each of three steps; return the first one by step."""
    writer, values = RunWriter(folder / "spool" / "one"), {}
    for step in range(3):
        first = np.random.default_rng(step).normal(size=(300, 1000)).astype(np.float32)
        second = np.full((400, 1000), step, np.float32)
        parts = {"fc.weight": ("F32", first.shape, first.tobytes()), "other": ("F32", second.shape, second.tobytes())}
        writer.write_all([*captures(step, step + 1), RawTensors(step, parts)])
        values[step] = first
    writer.end()
    Uploader(writer.path, ObjectStore(f"{uri}/one")).sync(is_final=True)
    return writer, values


def test_of_large_raw_tensors_only_those_that_are_read_are_fetched(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, values = raw_run(tmp_path, uri)
    fetched: list[int] = []
    get = ObjectStore.get

    def counted_get(store: ObjectStore, name: str, offset: int = 0, end: int | None = None) -> bytes:
        content = get(store, name, offset, end)
        fetched.append(len(content) if name.startswith(layout.TENSORS) else 0)
        return content

    monkeypatch.setattr(ObjectStore, "get", counted_get)
    run = leadline.open_run(mirror.mirror_run(f"{uri}/one"))
    assert run.tensor("loss").steps() == [0, 1, 2]
    assert (run.tensor("fc.weight").steps(), run.damage) == ([0, 1, 2], [])
    assert sum(fetched) <= 3 << 16, "headers"
    fetched.clear()
    for _ in range(2):
        assert (run.tensor("fc.weight").value(1) == values[1]).all()
    assert sum(fetched) == values[1].nbytes, "once"
    run.refresh()
    assert (run.tensor("fc.weight").value(1) == values[1]).all()
    assert sum(fetched) == values[1].nbytes, "a refresh leaves it as it is"
    assert run.verify() == []
    for path in Path(writer.path).rglob("*.safetensors"):
        assert Path(run.path, path.relative_to(writer.path)).stat().st_size == path.stat().st_size
    mirror.fill_all(run.path)
    for path in Path(writer.path).rglob("*.safetensors"):
        assert Path(run.path, path.relative_to(writer.path)).read_bytes() == path.read_bytes()
    assert not list(Path(run.path).rglob(f"*{layout.HOLES}"))


def test_a_raw_tensor_that_cannot_be_fetched_is_no_zeros(uri: str, tmp_path: Path) -> None:
    raw_run(tmp_path, uri)
    run = leadline.open_run(mirror.mirror_run(f"{uri}/one"))
    shutil.move(tmp_path / "store", tmp_path / "away")
    with pytest.raises(DamagedRunError, match=r"fc\.weight at step 1 cannot be fetched: "):
        run.tensor("fc.weight").value(1)


def test_a_root_that_was_listed_is_brought_up_to_date_by_its_changes(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upload(name: str, *, is_over: bool) -> Upload:
        path = tmp_path / "spool" / name
        (tmp_path / "store" / name).mkdir(exist_ok=True)
        writer = RunWriter(path).write_all(captures(0, 3))
        if is_over:
            writer.end()
        write_upload(writer.path, UploadState(f"{uri}/{name}"))
        upload = Upload(writer.path)
        upload.advance(is_final=is_over)
        assert not upload.state.error
        return upload

    def listed() -> dict[str, str]:
        return {run.name: run.outcome.text for run in list_runs(mirror_root(uri))}

    asked: list[str | None] = []
    folder = ObjectStore.folder
    monkeypatch.setattr(ObjectStore, "folder", lambda self, name=None: asked.append(name) or folder(self, name))
    upload("one", is_over=True)
    begun = upload("two", is_over=False)
    first = listed()
    assert sorted(first) == ["one", "two"]
    assert asked, "a complete listing"
    asked.clear()
    assert listed() == first
    upload("three", is_over=True)
    RunWriter(begun._run).write_all(captures(0, 3)).end("Failed", 1)
    begun.advance(is_final=True)
    later = listed()
    assert (sorted(later), later["one"]) == (["one", "three", "two"], first["one"])
    assert later["two"].startswith("Failed with exit status 1")
    shutil.rmtree(mirror.mirror_run(f"{uri}/one"))
    assert listed() == later, "a mirror that the cache has removed"
    assert asked == []
    rebuild_catalogue(uri)
    shutil.rmtree(tmp_path / "store" / "three")
    os.unlink(tmp_path / "store" / ".catalogue" / "runs" / "three.json")
    asked.clear()
    assert sorted(listed()) == ["one", "two"]
    assert asked, "the list after a rebuild is complete"
