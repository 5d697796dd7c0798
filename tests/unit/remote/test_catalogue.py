"""The catalogue of a root: entries show what the runs themselves show, and one index has them all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from leadline.judge.judge import judge_run
from leadline.reader.summary import RunSummary, summarize
from leadline.records.incarnations import Incarnation, Incarnations
from leadline.records.manifest import RuleSpec
from leadline.remote import catalogue
from leadline.remote.object_store import ObjectStore
from leadline.remote.upload import Upload
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.upload_state import UploadState, write_upload
from leadline.testing.runs import Capture, RunWriter

ROOT = "s3://bucket/runs"
RULES = (RuleSpec("loss_not_decreasing", "loss_not_decreasing"), RuleSpec("exploding_tensor", "exploding_tensor"))


class Root(ObjectStore):
    """The store of a root in memory, which counts what is fetched."""

    def __init__(self) -> None:
        super().__init__(ROOT, MemoryStore())
        self.fetched: list[str] = []

    def get(self, name: str, offset: int = 0, end: int | None = None) -> bytes:
        self.fetched.append(name)
        return super().get(name, offset, end)


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run with a finding, whose rules were evaluated."""
    writer = RunWriter(tmp_path / "one", rules=RULES)
    values = [1.0, 0.9, float("nan"), 0.7]
    writer.write_all([Capture(step, {"loss": {"value": value}}) for step, value in enumerate(values)])
    writer.write_worker("rank0-1", steps={"train": 4}, losses={"loss": 0.7}, own_ns=2, loop_ns=100, state="ended")
    path = str(writer.end("Failed", 1).path)
    judge_run(path, write=True)
    return path


def listed(path: str) -> RunSummary | None:
    """Return what a list shows of a run, without its place and what is only on its own pages."""
    summary = summarize(path)
    if summary is None:
        return None
    rules = tuple(replace(rule, why="", sampling="") for rule in summary.rules)
    return replace(summary, path="", rules=rules)


def test_an_entry_shows_what_the_run_shows(run: str, tmp_path: Path) -> None:
    expected = listed(run)
    assert expected is not None
    assert (expected.outcome.level, expected.steps) == ("fatal", {"train": 4})
    copy = tmp_path / "copy"
    for name, document in catalogue.entry_of(run).items():
        make_folder(os.path.dirname(copy / name))
        write_document(str(copy / name), document)
    assert listed(str(copy)) == expected


def test_a_run_that_goes_on_has_no_entry(tmp_path: Path) -> None:
    assert catalogue.entry_of(str(RunWriter(tmp_path / "one").path)) == {}
    assert catalogue.entry_of(str(tmp_path)) == {}


def test_many_entries_are_fetched_by_one_request(run: str) -> None:
    root, entry = Root(), catalogue.entry_of(run)
    for number in range(50):
        catalogue.publish(root, f"run-{number}", entry)
    assert catalogue.write_index(root) == 50
    root.fetched.clear()
    catalogue.publish(root, "run-7", {})  # it was resumed after the index was written
    tags = catalogue.entry_tags(root)
    expected = {f"run-{number}": entry for number in range(50)} | {"run-7": {}}
    assert catalogue.fetch_entries(root, tags) == expected
    assert sorted(root.fetched) == [".catalogue/index.json.gz", ".catalogue/runs/run-7.json"]


def test_a_damaged_index_is_replaced_by_its_entries(run: str) -> None:
    root, entry = Root(), catalogue.entry_of(run)
    for number in range(40):
        catalogue.publish(root, f"run-{number}", entry)
    root.put(".catalogue/index.json.gz", b"damaged")
    assert len(catalogue.fetch_entries(root, catalogue.entry_tags(root))) == 40


def test_the_upload_publishes_the_end_of_a_run_and_its_resumption(run: str) -> None:
    root = Root()
    write_upload(run, UploadState(f"{ROOT}/one"))
    upload = Upload(run, ObjectStore(f"{ROOT}/one", MemoryStore()), root)
    upload.advance(is_final=False)
    assert catalogue.entry_tags(root) == {}, "a run is added when it has ended"
    upload.advance(is_final=True)
    assert catalogue.fetch_entries(root, catalogue.entry_tags(root)) == {"one": catalogue.entry_of(run)}
    resumed = Incarnations(starts=(Incarnation(1, 1, None, "Failed", 1, 4),))
    write_document(os.path.join(run, layout.INCARNATIONS), resumed)
    Upload(run, ObjectStore(f"{ROOT}/one", MemoryStore()), root).advance(is_final=False)
    assert catalogue.fetch_entries(root, catalogue.entry_tags(root)) == {"one": {}}
