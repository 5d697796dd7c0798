"""The exchange of nodes that share only a store, which here is in memory: who writes what, and who begins a term."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from obstore.store import MemoryStore

import leadline
from leadline.agent.election import SILENT_SECONDS, Election
from leadline.agent.run_documents import RunDocuments
from leadline.errors import ConfigurationError, RunExistsError
from leadline.launch.resume import resume_run
from leadline.records.documents import NodeDocument
from leadline.records.incarnations import Incarnation, Incarnations
from leadline.records.request import SetInterval
from leadline.remote import claim
from leadline.remote.claim import RunInterruptedError, RunOverError, RunResumedError, enter_uploaded_run
from leadline.remote.exchange import Exchange, participant
from leadline.remote.object_store import ObjectStore, StoreError
from leadline.remote.upload import Upload
from leadline.store import layout
from leadline.store.control import read_requests, write_request
from leadline.store.documents import encode, read_document, write_document
from leadline.store.run_state import read_status, write_status
from leadline.store.terms import latest_term, proposed_term
from leadline.testing.runs import Capture, RunWriter

ROOT = "s3://bucket/runs"
SIGN_NS = 1_700_000_000_000_000_000
SEGMENT = "series/{}/000001.arrow.gz"


class Store(ObjectStore):
    """The objects of a run, as one node reaches them."""

    def __init__(self, backend: MemoryStore) -> None:
        super().__init__(f"{ROOT}/one", backend)
        self.written: list[str] = []
        self.is_away = False

    def put(self, name: str, content: bytes | Path, *, create: bool = False) -> None:
        self._check()
        super().put(name, content, create=create)
        self.written.append(name)

    def folder(self, name: str | None = None):  # type: ignore[no-untyped-def]
        self._check()
        return super().folder(name)

    def _check(self) -> None:
        if self.is_away:
            raise StoreError(f"{self.uri}: the store cannot be reached")


class Node:
    """A node with a run directory of its own."""

    def __init__(self, folder: Path, name: str, backend: MemoryStore, pid: int) -> None:
        self.manifest = manifest = RunWriter(folder / f"model-{name}" / "one").manifest
        self.store, self.name, self.now = Store(backend), name, 1000.0 * pid
        self.run = enter_uploaded_run(str(folder / name / "one"), ROOT, manifest, self.store, node=name)
        self.upload = Upload(self.run, self.store, ObjectStore(ROOT, MemoryStore()))
        self.exchange = self.upload.exchange = Exchange(self.run, self.store, name, lambda: self.now)
        self.upload._uploader._is_own = self.exchange.is_own
        self.documents = RunDocuments(self.run, name)
        pid = os.getpid() if name == "a" else pid  # the process that creates the run becomes its agent
        self.election = Election(self.run, name, lambda: self.now, pid)
        self._signs = 0

    def live(self, seconds: float, *, is_alive: bool = True) -> bool:
        """Let time pass, with a round of the upload; return whether this node's agent is the primary one then."""
        self.now += seconds
        if is_alive:
            self.documents.heartbeat()
            self._signs += 1
            os.utime(os.path.join(self.run, layout.node_sign(self.name)), ns=(SIGN_NS + self._signs,) * 2)
            self.documents.set_node(NodeDocument(self.name, state="running"))
        self.election.poll()
        try:
            self.exchange.pulse()
        except StoreError:
            assert self.store.is_away
        self.upload.advance(is_final=False)
        self.election.poll()
        return self.election.is_primary

    def train(self, worker: str, steps: range) -> None:
        """Write a worker as its process does."""
        model = RunWriter(Path(self.run).parents[1] / f"model-{self.name}" / worker)
        model.write_all([Capture(step, {"loss": {"value": 1 / (step + 1)}}, worker=worker) for step in steps])
        for name in (SEGMENT.format(worker), layout.worker_document(worker)):
            os.makedirs(os.path.dirname(os.path.join(self.run, name)), exist_ok=True)
            if os.path.exists(source := os.path.join(model.path, name)):
                Path(self.run, name).write_bytes(Path(source).read_bytes())
        write_document(
            os.path.join(self.run, layout.worker_document(worker)),
            {"worker": worker, "node": self.name, "state": "running", "steps": {"train": steps.stop}},
        )

    def has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.run, name))


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Node, Node]:
    backend = MemoryStore()
    return Node(tmp_path, "a", backend, 1), Node(tmp_path, "b", backend, 2)


def test_each_node_writes_its_own_and_the_primary_one_has_all(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    assert (first.live(0), second.live(0)) == (True, False)
    first.train("rank0-1", range(3))
    second.train("rank1-2", range(5))
    for _ in range(2):
        first.live(1)
        second.live(1)
    assert first.has(SEGMENT.format("rank1-2"))
    assert not second.has(SEGMENT.format("rank0-1")), "captured data is fetched only where it is judged"
    assert second.has("workers/rank0-1.json")
    assert read_status(second.run) == read_status(first.run)
    assert not [name for name in first.store.written if "rank1-2" in name or "nodes/b" in name]
    assert not [name for name in second.store.written if "rank0-1" in name or name == layout.STATUS]
    run = leadline.open_run(first.run)
    last = {row["worker"]: row["step"] for row in run.scalars("loss").to_pylist()}
    assert last == {"rank0-1": 2, "rank1-2": 4}

    written = len(first.store.written)
    again = Upload(first.run, first.store, ObjectStore(ROOT, MemoryStore()))
    again.advance(is_final=False)
    assert not [name for name in first.store.written[written:] if "rank1-2" in name], "after a restart neither"


def test_a_request_reaches_all_nodes_from_any(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    request = SetInterval("1-a", "from b", "user", 1, interval_ms=100)
    write_request(second.run, request)
    for node in (second, first):
        node.live(1)
    assert read_requests(first.run) == [request]
    first.live(1)
    assert first.store.written.count(layout.request(request.id)) == 0


def test_a_silent_node_is_replaced_by_one_that_has_its_data_and_it_steps_back(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    first.train("rank0-1", range(3))
    for node in (first, second):
        node.live(0)
    for _ in range(int(SILENT_SECONDS) - 1):
        assert not second.live(1)
    assert second.live(2)
    assert second.has(SEGMENT.format("rank0-1"))
    assert latest_term(second.run).node == "b"
    write_status(second.run, "Stopping", 5)
    second.live(1)
    assert not first.live(1), "it was only suspended"
    assert read_status(first.run).status == "Stopping"
    written = len(first.store.written)
    write_status(first.run, "InProgress", 6)
    first.live(1)
    assert layout.STATUS not in first.store.written[written:]
    first.store.put(layout.STATUS, b"{}")  # in a round that was suspended
    second.upload.advance(is_final=True)
    assert first.store.get(layout.STATUS) == Path(second.run, layout.STATUS).read_bytes()


def test_an_outage_of_the_store_replaces_no_judge(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    for _ in range(20):
        assert (first.live(1), second.live(1)) == (True, False)
    for node in nodes:
        node.store.is_away = True
    for _ in range(60):
        assert (first.live(1), second.live(1)) == (True, False)
    assert proposed_term(second.run) is not None, "the other node seems to be gone"
    for node in reversed(nodes):
        node.store.is_away = False
    for _ in range(30):
        assert (second.live(1), first.live(1)) == (False, True)
    assert proposed_term(second.run) is None
    assert latest_term(first.run).number == 1


def test_of_two_nodes_that_want_a_term_one_gets_it(nodes: tuple[Node, Node], tmp_path: Path) -> None:
    first, second = nodes
    third = Node(tmp_path, "c", second.store._backend, 3)
    first.live(0)
    for _ in range(int(SILENT_SECONDS) + 3):
        second.live(1)
        third.live(1)
    assert (second.election.is_primary, third.election.is_primary) == (True, False)
    assert latest_term(third.run).node == "b"


def test_the_end_of_the_primary_agent_needs_no_waiting(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    for node in nodes:
        node.live(0)
    first.documents.set_node(NodeDocument("a", state="ended"))
    first.live(0, is_alive=False)
    second.live(1)
    assert second.live(1)


def test_what_cannot_be_joined_is_refused(
    nodes: tuple[Node, Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "_WATCH_SECONDS", 0.1)
    first, _ = nodes
    backend = first.store._backend
    beside = enter_uploaded_run(first.run, ROOT, RunWriter(tmp_path / "x").manifest, Store(backend), node="d")
    assert beside == f"{first.run}@d", "both nodes have the same spool"
    same = enter_uploaded_run(first.run, ROOT, RunWriter(tmp_path / "y").manifest, Store(backend), node="a")
    assert same == first.run
    with pytest.raises(ConfigurationError, match="one is not resumed by its folder, as its nodes share"):
        resume_run(first.run)
    RunWriter(tmp_path / "e" / "one")
    RunWriter(tmp_path / "e" / "one@e")
    with pytest.raises(RunExistsError, match=r"another run exists at .*; set LEADLINE_SPOOL to another folder"):
        enter_uploaded_run(
            str(tmp_path / "e" / "one"), ROOT, RunWriter(tmp_path / "z").manifest, Store(backend), node="e"
        )
    first.live(1)
    first.store.put(layout.INCARNATIONS, encode(Incarnations((Incarnation(1),))))
    first.store.delete([layout.node_sign("a")])
    with pytest.raises(RunOverError, match="s3://bucket/runs/one is that of one machine alone"):
        Node(tmp_path, "f", backend, 6)
    first.store.put(layout.node_sign("a"), claim.RESUMING)
    with pytest.raises(RunResumedError, match="s3://bucket/runs/one was resumed by other nodes"):
        Node(tmp_path, "f", backend, 6)
    first.store.delete([layout.INCARNATIONS])
    with pytest.raises(RunExistsError, match=r"another machine of the run at .* is named a; set LEADLINE_NODE_NAME"):
        enter_uploaded_run(str(tmp_path / "g" / "one"), ROOT, first.manifest, Store(backend), node="a")
    monkeypatch.setattr(claim, "_SILENT_SECONDS", -1.0)
    with pytest.raises(RunInterruptedError, match="s3://bucket/runs/one was interrupted"):
        Node(tmp_path, "f", backend, 6)
    assert not (tmp_path / "f" / "one").exists()
    write_status(first.run, "Completed", 5)
    first.live(1)
    with pytest.raises(RunOverError, match=r"s3://bucket/runs/one has ended \(Completed\) and cannot be joined"):
        Node(tmp_path, "f", backend, 6)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("series/rank0-1/000001.arrow.gz", "workers/rank0-1"),
        ("series/rank0-1/000001.arrow.gz.from-000000000000000", "workers/rank0-1"),
        ("profiles/rank0-1/w/trace.json.gz", "workers/rank0-1"),
        ("workers/rank0-1.exit", "workers/rank0-1"),
        ("system/gpu.example.org/000001.arrow.gz", "nodes/gpu.example.org"),
        ("nodes/gpu.example.org.json", "nodes/gpu.example.org"),
        ("nodes/gpu.example.org.alive", "nodes/gpu.example.org"),
        ("control/acks/0001-ab.rank0-1.json", "workers/rank0-1"),
        ("control/acks/0001-ab.agent-gpu.example.org.json", "nodes/gpu.example.org"),
        ("control/0001-ab.json", None),
        ("status.json", None),
        ("rules/overfit/findings.jsonl", None),
    ],
)
def test_files_belong_to_workers_nodes_or_the_run(name: str, owner: str | None) -> None:
    assert participant(name) == owner


def test_others_are_recorded_before_anything_of_them_is_here(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    second.train("rank1-2", range(2))
    second.live(1)
    first.live(1)
    assert set(read_document(os.path.join(first.run, layout.OTHERS)) or ()) == {"nodes/b", "workers/rank1-2"}
