"""What somebody else made or sent must not harm: runs, buckets, links, names.

Each test repeats an attack that worked once. ``docs/explanation/security.md`` says who may do what, and where the tests
of the other doors are: ``leadline ui``, ``leadline serve``, secrets, rules and actions that a run names.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from launching import show

import leadline
from leadline.agent.run_documents import RunDocuments
from leadline.errors import DamagedRunError, LeadlineError, RunNotFoundError
from leadline.reader.find_runs import find_run, list_runs
from leadline.records.manifest import RuleSpec
from leadline.remote import mirror
from leadline.remote.object_store import ObjectStore
from leadline.remote.root_mirror import mirror_root
from leadline.remote.uploader import Uploader
from leadline.store import layout
from leadline.store.control import acknowledge, read_requests
from leadline.store.documents import append_line, read_document, read_lines
from leadline.store.node_lock import acquire_lock
from leadline.store.run_files import IrregularFileError, open_regular, read_regular
from leadline.testing.runs import Capture, RawTensors, RunWriter


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with what an attacker would like to change, and the cache of this test."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "FRESH_SECONDS", 0.0)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "authorized_keys").write_text("the real key")
    (home / "docs" / "deep").mkdir(parents=True)
    (home / "docs" / "thesis.txt").write_text("a thesis")
    (home / "docs" / "deep" / "notes.txt").write_text("notes")
    return home


def written(path: Path) -> Path:
    writer = RunWriter(path).write_all([Capture(step, {"loss": {"value": 1 / (step + 1)}}) for step in range(5)])
    writer.write(RawTensors(4, {"w": ("F32", (2,), np.float32([1, 2]).tobytes())}))
    return Path(writer.end().path)


def contents(*folders: Path) -> dict[str, str]:
    """Return the files and links below some folders with their contents."""
    files = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file())
    return {
        str(path): os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


# --- a run directory from elsewhere -----------------------------------------------------------------------


def test_looking_at_a_run_changes_nothing_in_it(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    before = contents(run)
    opened = leadline.open_run(run)
    for table in (opened.scalars, opened.series, opened.timeline, opened.system_metrics, opened.findings):
        table()
    show(run)
    assert [found.name for found in list_runs(tmp_path)] == ["run"]
    assert contents(run) == before


@pytest.mark.parametrize("has_links", [False, True])
def test_a_run_from_elsewhere_that_says_it_is_a_mirror_is_none(tmp_path: Path, home: Path, has_links: bool) -> None:
    source = written(tmp_path / "objects")
    (source / "commands").mkdir()
    (source / "commands" / "authorized_keys").write_text("key of the attacker")
    run = written(tmp_path / "theirs")
    (run / layout.MIRROR).write_text(json.dumps({"uri": f"file://{source}", "tags": {}, "error": ""}))
    if has_links:
        shutil.rmtree(run / "tensors")
        (run / "tensors").symlink_to(home / "docs")
        (run / "commands").symlink_to(home / ".ssh")
    before = contents(home, run)
    if has_links:
        with pytest.raises(DamagedRunError, match="is a symbolic link, which is not followed"):
            show(run)
    else:
        assert show(run)["uri"] == str(run)
    assert contents(home, run) == before


@pytest.mark.parametrize("part", ["tensors", "workers", "rules/loss", "compact", "control/acks", "reports"])
def test_a_run_with_a_linked_folder_is_opened_by_nothing(tmp_path: Path, home: Path, part: str) -> None:
    run = written(tmp_path / "run")
    shutil.rmtree(run / part, ignore_errors=True)
    (run / part).parent.mkdir(exist_ok=True)
    (run / part).symlink_to(home / "docs")
    with pytest.raises(DamagedRunError, match=f"{part} is a symbolic link"):
        find_run(run)
    assert [found.name for found in list_runs(tmp_path)] == ["run"], "a list shows it, and reads no link"


def test_a_run_may_lie_behind_a_link(tmp_path: Path) -> None:
    written(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "run").symlink_to(tmp_path / "elsewhere" / "run")
    assert leadline.open_run(tmp_path / "runs" / "run").steps() == list(range(5))


def test_nothing_is_written_through_a_link(tmp_path: Path, home: Path) -> None:
    target = home / "docs" / "thesis.txt"
    link = tmp_path / "link"
    link.symlink_to(target)
    run = written(tmp_path / "run")
    shutil.rmtree(run / "nodes")
    (run / "nodes").mkdir()
    for name in ("node.json", "node.alive"):
        (run / "nodes" / name).symlink_to(target)
    before = contents(home)
    for write in (lambda: append_line(str(link), 1), lambda: acquire_lock(str(link))):
        with pytest.raises(OSError, match="symbolic links"):
            write()
    changed_ns = target.stat().st_mtime_ns
    RunDocuments(str(run), "node").heartbeat()
    assert (contents(home), target.stat().st_mtime_ns) == (before, changed_ns)


def test_files_that_are_no_regular_ones_are_not_read(tmp_path: Path, home: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(home / "docs" / "thesis.txt")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    for name, said in (("pipe", "a named pipe"), ("link", "a symbolic link"), ("zero", "a symbolic link")):
        with pytest.raises(IrregularFileError, match=f"is {said}, not a regular file"):
            open_regular(str(tmp_path / name))
    with pytest.raises(IrregularFileError, match="is a device"):
        open_regular("/dev/zero")
    with pytest.raises(IrregularFileError, match="is a folder"):
        open_regular(str(tmp_path / "folder"))
    with pytest.raises(IrregularFileError, match="has 1,099,511,627,776 bytes, more than the 8,388,608 that are read"):
        read_regular(str(tmp_path / "sparse"))
    for name in ("pipe", "link", "zero", "folder", "sparse"):
        assert read_document(str(tmp_path / name)) is None
        assert read_lines(str(tmp_path / name)) == []


def test_a_document_nested_without_end_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_bytes(b"[" * 200_000 + b"]" * 200_000)
    assert read_document(str(tmp_path / "deep.json")) is None


@pytest.mark.parametrize("name", ["../../home/.ssh/x", "/etc/x", "..", "", "a\0b"])
def test_names_that_lead_out_of_the_run_are_none(name: str) -> None:
    for place in (layout.rule_status, layout.rule_findings, layout.request, layout.worker_document, layout.node_lock):
        with pytest.raises(DamagedRunError, match="cannot be the name of a file"):
            place(name)
    for pair in ((name, "w"), ("id", name)):
        with pytest.raises(DamagedRunError, match="cannot be the name of a file"):
            layout.acknowledgement(*pair)


def test_a_request_is_answered_under_the_name_of_its_file(tmp_path: Path, home: Path) -> None:
    run = written(tmp_path / "run")
    request = {"id": "../../../home/.ssh/x", "kind": "stop", "reason": "r", "source": "user", "time_ns": 1}
    (run / "control").mkdir(exist_ok=True)
    (run / "control" / "1-a.json").write_text(json.dumps(request))
    invalid: list[str] = []
    assert read_requests(str(run), on_invalid=invalid.append) == []
    assert invalid == [str(run / "control" / "1-a.json")]
    with pytest.raises(DamagedRunError):
        acknowledge(str(run), request["id"], "w", 1, None)  # type: ignore[arg-type]
    assert sorted(os.listdir(home / ".ssh")) == ["authorized_keys"]


def test_a_rule_whose_name_is_a_path_writes_nothing(tmp_path: Path, home: Path) -> None:
    from leadline.judge.judge import judge_run

    writer = RunWriter(tmp_path / "run", rules=[RuleSpec("../../../home/docs/evil", "exploding_tensor")])
    run = Path(writer.write_all([Capture(0, {"loss": {"value": 1.0}})]).end().path)
    before = contents(home)
    with pytest.raises(LeadlineError, match="cannot be the name of a file"):
        judge_run(str(run), write=True)
    assert contents(home) == before


# --- a bucket into which others write ---------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store" / "one").mkdir(parents=True)
    return tmp_path / "store"


def uploaded(store: Path, name: str) -> str:
    (store / name).mkdir(exist_ok=True)
    run = written(store.parent / "spool" / name)
    Uploader(str(run), ObjectStore(f"file://{store}/{name}")).sync(is_final=True)
    return f"file://{store}/{name}"


def test_a_copy_of_a_mirror_outlives_the_run_in_the_store(tmp_path: Path, store: Path) -> None:
    fetched = mirror.mirror_run(uploaded(store, "one"))
    copy = shutil.copytree(fetched, tmp_path / "archive")
    shutil.rmtree(store / "one")
    (store / "one").mkdir()
    before = contents(copy)
    assert show(copy)["steps"]["train"] == 5
    assert contents(copy) == before


def test_the_last_copy_of_a_run_is_kept(tmp_path: Path, store: Path) -> None:
    uri = uploaded(store, "one")
    fetched = mirror.mirror_run(uri)
    before = sorted(contents(Path(fetched)).values())
    shutil.move(store / "one", tmp_path / "away")
    (store / "one").mkdir()
    opened = leadline.open_run(fetched)
    assert opened.refresh().steps() == list(range(5)), "an open mirror shows what was fetched"
    assert "there is no run at" in mirror.last_error(fetched)
    with pytest.raises(RunNotFoundError, match="what was fetched of it is kept at") as refused:
        mirror.mirror_run(uri)
    kept = Path(str(refused.value).rpartition(" ")[2])
    assert show(kept)["steps"]["train"] == 5
    assert len(contents(kept)) == len(before)
    with pytest.raises(RunNotFoundError, match="is kept at"):
        mirror.mirror_run(uri)
    assert list_runs(mirror_root(f"file://{store}")) == []
    assert layout.is_run(str(kept))
    shutil.rmtree(store / "one")
    shutil.move(tmp_path / "away", store / "one")
    assert leadline.open_run(mirror.mirror_run(uri)).steps() == list(range(5))
    assert not kept.exists()


@pytest.mark.parametrize("name", ["..", ".", "...", ".kept"])
def test_a_run_name_in_the_catalogue_cannot_remove_the_mirrors(store: Path, name: str) -> None:
    uploaded(store, "one")
    fetched = mirror.mirror_run(f"file://{store}/one")
    other = mirror.mirror_run(uploaded(store.parent / "store", "two"))
    changes = store / ".catalogue" / "changes"
    changes.mkdir(parents=True, exist_ok=True)
    for place in (changes / f"{9 * 10**18:020d}.{name}", store / ".catalogue" / "runs" / f"{name}.json"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps({layout.MANIFEST: {}}))
    assert {run.name for run in list_runs(mirror_root(f"file://{store}"))} == {"one", "two"}
    assert layout.is_run(fetched)
    assert layout.is_run(other)
    with pytest.raises(RunNotFoundError, match="cannot be the name of one"):
        mirror.mirror_run(f"file://{store}/{name}")


def test_an_entry_of_the_catalogue_writes_documents_only(store: Path, home: Path) -> None:
    uploaded(store, "one")
    entries = store / ".catalogue" / "runs"
    entries.mkdir(parents=True, exist_ok=True)
    evil = {"../../../home/.ssh/authorized_keys": "x", layout.MIRROR: {"uri": "file:///"}, "/etc/x": 1, "a/../b": 2}
    (entries / "one.json").write_text(json.dumps(evil))
    before = contents(home)
    folder = mirror_root(f"file://{store}")
    assert contents(home) == before
    assert mirror.uri_of(os.path.join(folder, "one")) == f"file://{store}/one"


def test_objects_whose_names_are_no_paths_of_a_run_are_left_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = uploaded(store, "one")
    (store / "one" / layout.MIRROR).write_text('{"uri": "file:///"}')
    (store / "one" / "tensors" / "x.holes").write_text("[0, 1]")
    listed = ObjectStore.objects

    def objects(self: ObjectStore, *arguments: object) -> object:
        found = listed(self, *arguments)  # type: ignore[arg-type]
        return [*found, *(type(found[0])(name, 1, "tag") for name in ("../../x", "a//b", "rules/" + "n" * 300))]

    monkeypatch.setattr(ObjectStore, "objects", objects)
    fetched = mirror.mirror_run(uri)
    assert leadline.open_run(fetched).steps() == list(range(5))
    assert mirror.uri_of(fetched) == uri
    assert not list(Path(fetched).rglob("*.holes"))
    assert "'../../x' was left out" in mirror.last_error(fetched)


def test_an_upload_sends_nothing_that_a_link_leads_to(store: Path, home: Path) -> None:
    run = written(store.parent / "spool" / "one")
    (run / "rules" / "secret.json").symlink_to(home / ".ssh" / "authorized_keys")
    (run / layout.NOTES).symlink_to(home / "docs" / "thesis.txt")
    os.mkfifo(run / "workers" / "pipe.json")
    Uploader(str(run), ObjectStore(f"file://{store}/one")).sync(is_final=True)
    sent = [path.read_bytes() for path in store.rglob("*") if path.is_file()]
    assert len(sent) > 3
    assert not any(b"the real key" in content or b"a thesis" in content for content in sent)
