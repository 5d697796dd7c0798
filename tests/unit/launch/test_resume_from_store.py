"""Resumption of a run whose nodes share only a store, which here is in memory: who begins it, and what is refused."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from leadline.errors import RunExistsError, RunNotFoundError, RunNotWritableError
from leadline.instrumentation.resumption import Resumption
from leadline.launch import resume_from_store
from leadline.launch.resume_from_store import resume_joint
from leadline.remote import claim
from leadline.remote.claim import RunInterruptedError, RunOverError, RunResumedError, enter_uploaded_run
from leadline.remote.exchange import Exchange
from leadline.remote.object_store import ObjectStore
from leadline.remote.upload import Upload
from leadline.remote.uploader import Uploader
from leadline.store import layout
from leadline.store.documents import encode, read_document, write_document
from leadline.store.incarnations import read_incarnations
from leadline.store.node_lock import acquire_lock, release_lock
from leadline.store.terms import Term, latest_term
from leadline.testing.runs import Capture, RunWriter

ROOT, URI = "s3://bucket/runs", "s3://bucket/runs/one"


class Store(ObjectStore):
    def __init__(self, backend: MemoryStore) -> None:
        super().__init__(URI, backend)


def steps_of(run: str, rank: int) -> int:
    return read_incarnations(run).workers[f"rank{rank}-1"].steps


class Job:
    """A job of two nodes that has ended: each has a worker of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.backend = folder, MemoryStore()
        for rank, node in enumerate("ab"):
            manifest = RunWriter(folder / f"manifest-{node}" / "one").manifest
            run = enter_uploaded_run(self.path(node), ROOT, manifest, Store(self.backend), node=node)
            self.write(run, node, rank, 10)
            exchange = Exchange(run, Store(self.backend), node)
            Uploader(run, Store(self.backend), exchange.is_own).sync(is_final=True)
        self.end(status="Failed", exit_status=7)

    def write(self, run: str, node: str, rank: int, steps: int) -> None:
        worker = f"rank{rank}-1"
        model = RunWriter(self.folder / f"model-{node}-{steps}" / "one")
        model.write_all([Capture(step, {"loss": {"value": step / 2}}, worker=worker) for step in range(steps)])
        name = f"series/{worker}/000001.arrow.gz"
        os.makedirs(os.path.dirname(os.path.join(run, name)), exist_ok=True)
        Path(run, name).write_bytes(Path(model.path, name).read_bytes())
        document = {"worker": worker, "node": node, "state": "running", "steps": {"train": steps}}
        write_document(os.path.join(run, layout.worker_document(worker)), document)

    def end(self, **status: Any) -> None:
        Store(self.backend).put(layout.STATUS, encode({"node": "a", **status}))

    def path(self, node: str) -> str:
        return str(self.folder / node / "one")

    def resume(self, node: str, **options: Any) -> str:
        return resume_joint(self.path(node), URI, max_bytes=1 << 30, node=node, store=Store(self.backend), **options)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(resume_from_store, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(claim, "_WATCH_SECONDS", 0.5)
    monkeypatch.setattr(claim, "_WATCH_POLL_SECONDS", 0.02)
    return Job(tmp_path)


def test_one_of_several_nodes_begins_the_incarnation_and_the_others_have_the_same(job: Job) -> None:
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(job.resume, "abc"))  # of which c is new
    found = [read_incarnations(run) for run in runs]
    assert {one.number for one in found} == {1}
    assert len({one.starts for one in found}) == 1
    assert found[0].starts[0].status == "Failed"
    assert all(one.workers == found[0].workers for one in found)
    (begun,) = {latest_term(run) for run in runs}
    assert (begun.number, begun.incarnation, begun.agent_pid) == (2, 1, os.getpid())
    for node, run in zip("abc", runs, strict=True):
        others = set(read_document(os.path.join(run, layout.OTHERS)))
        assert others >= {"workers/rank0-1", "workers/rank1-1"}, "a worker is that of the node that continues it"
        assert f"nodes/{node}" not in others
        assert all(os.path.exists(os.path.join(run, f"series/rank{rank}-1/000001.arrow.gz")) for rank in (0, 1))


def test_a_node_that_continues_a_worker_uploads_it_from_then_on(job: Job) -> None:
    runs = {node: job.resume(node) for node in "ab"}
    continued = Resumption(runs["b"]).claim_worker(0, "b")
    assert continued is not None
    assert continued[0] == "rank0-1", "rank 0 has moved from node a to node b"
    exchanges = {node: Exchange(run, Store(job.backend), node) for node, run in runs.items()}
    for exchange in exchanges.values():
        exchange.take_workers()
    assert [exchanges[node].is_own("series/rank0-1/000002.arrow.gz") for node in "ab"] == [False, True]
    Uploader(runs["b"], Store(job.backend), exchanges["b"].is_own).sync()
    exchanges["a"].fetch()
    exchanges["a"].take_workers()
    assert not exchanges["a"].is_own("workers/rank0-1.json"), "the claim of another node is none of this one"
    assert Resumption(runs["a"]).claim_worker(0, "a") is None
    assert Resumption(runs["a"]).claim_worker(1, "a", is_known=False) is None, "it may run on node b, too"
    own = Resumption(runs["b"]).claim_worker(1, "b", is_known=False)
    assert own is not None
    assert own[0] == "rank1-1"


def test_what_a_node_had_not_uploaded_is_part_of_the_run(job: Job) -> None:
    job.write(job.path("a"), "a", 0, 14)
    job.write(job.path("b"), "b", 1, 16)
    first = job.resume("a")
    assert (steps_of(first, 0), steps_of(first, 1)) == (14, 10), "of the other node it has what is in the store"
    second = job.resume("b")
    assert (steps_of(second, 0), steps_of(second, 1)) == (14, 16)


def test_a_run_directory_that_others_have_gone_on_without_is_not_uploaded(job: Job) -> None:
    job.resume("c")
    job.write(job.path("b"), "b", 1, 16)
    before = {stored.name: stored.tag for stored in Store(job.backend).objects()}
    upload = Upload(job.path("b"), Store(job.backend), ObjectStore(ROOT, MemoryStore()))
    upload.advance(is_final=True)
    assert not upload.state.is_complete
    assert "one: was resumed on another machine since" in upload.state.error
    assert {stored.name: stored.tag for stored in Store(job.backend).objects()} == before


def test_a_claim_that_came_to_nothing_is_replaced(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(job.backend)
    store.put(layout.term(2), encode(Term(2, "z", 1, 1)))
    monkeypatch.setattr(resume_from_store, "_TIMEOUT_SECONDS", 0.1)
    run = job.resume("a")
    assert (read_incarnations(run).number, latest_term(run).number) == (1, 3)


def test_a_node_that_cannot_begin_takes_its_claim_back(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RunNotWritableError("the run cannot be written")

    with monkeypatch.context() as patched:
        patched.setattr(resume_from_store, "fetch_run", fail)
        with pytest.raises(RunNotWritableError):
            job.resume("c")
    assert not os.path.exists(job.path("c"))
    assert read_incarnations(job.resume("a")).number == 1, "at once"


def test_a_running_job_is_not_resumed(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_SILENT_SECONDS", 0.0)  # it was started long ago
    job.end(status="InProgress")
    manifest, store, samples = (
        RunWriter(job.folder / "manifest" / "one").manifest,
        Store(job.backend),
        iter(range(9999)),
    )
    is_over = threading.Event()

    def run_alone() -> None:
        while not is_over.wait(0.02):
            store.put(f"system/a/000001.arrow.gz.from-{next(samples):015d}", b"sample")

    thread = threading.Thread(target=run_alone)
    thread.start()
    try:
        with pytest.raises(RunOverError, match="one is that of one machine alone and cannot be joined"):
            enter_uploaded_run(job.path("c"), ROOT, manifest, Store(job.backend), node="c")
        with pytest.raises(RunExistsError, match="one cannot be resumed: it is InProgress"):
            job.resume("c")
    finally:
        is_over.set()
        thread.join()
    assert not os.path.exists(job.path("c"))
    assert layout.node_sign("c") not in {stored.name for stored in store.objects()}
    with pytest.raises(RunInterruptedError):
        enter_uploaded_run(job.path("c"), ROOT, manifest, Store(job.backend), node="c")
    lock = acquire_lock(os.path.join(job.path("b"), layout.node_lock("b")))
    assert lock is not None
    try:
        with pytest.raises(RunExistsError, match="one cannot be resumed: it is"):
            job.resume("b")
    finally:
        release_lock(lock, os.path.join(job.path("b"), layout.node_lock("b")))


def test_a_node_does_not_join_what_another_resumes_while_it_looks_for_signs(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All machines were lost, and two nodes are started at once: the sign that one sees is that of the other."""
    job.end(status="InProgress")
    Store(job.backend).put(layout.node_sign("a"), b"1700000000000000000")

    def resumed_meanwhile(*_: Any, **__: Any) -> bool:
        job.end(status="Interrupted")
        job.resume("a")
        return True

    monkeypatch.setattr(claim, "_is_alive", resumed_meanwhile)
    manifest = RunWriter(job.folder / "manifest" / "one").manifest
    with pytest.raises(RunResumedError, match="one was resumed by other nodes"):
        enter_uploaded_run(job.path("b"), ROOT, manifest, Store(job.backend), node="b")


def test_a_node_does_not_join_what_ends_while_it_looks_for_signs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.end(status="InProgress")
    Store(job.backend).put(layout.node_sign("a"), b"1700000000000000000")

    def ended_meanwhile(*_: Any, **__: Any) -> bool:
        job.end(status="Completed", exit_status=0)
        return True

    monkeypatch.setattr(claim, "_is_alive", ended_meanwhile)
    manifest = RunWriter(job.folder / "manifest" / "one").manifest
    with pytest.raises(RunOverError, match=r"one has ended \(Completed\)"):
        enter_uploaded_run(job.path("b"), ROOT, manifest, Store(job.backend), node="b")


def test_what_cannot_be_resumed_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunNotFoundError, match="there is no run at s3://bucket/runs/one"):
        resume_joint(job.path("c"), URI, max_bytes=1 << 30, node="c", store=Store(MemoryStore()))
    job.end(status="Stopped", stopped_by="rule:loss_spike")
    with pytest.raises(RunExistsError, match=r"one is not resumed: loss_spike has stopped it .*--resume-stopped"):
        job.resume("c")
    assert not os.path.exists(job.path("c"))
    run = job.resume("a", is_stop_ignored=True, step=4)
    assert read_incarnations(run).resume_step == 4
    with pytest.raises(RunExistsError, match="one cannot be resumed: it is Starting; wait for its end"):
        job.resume("a")
    monkeypatch.setattr(claim, "_WATCH_SECONDS", 0.1)
    Store(job.backend).put(layout.node_sign("a"), b"1700000000000000000")
    job.resume("a")
    assert read_incarnations(run).number == 2, "its agent gives no signs any more"
