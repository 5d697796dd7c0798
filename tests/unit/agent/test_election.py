"""Which agent of a run is the primary one, with clocks that differ by hours."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.agent.election import SILENT_SECONDS, Election
from leadline.agent.run_documents import RunDocuments
from leadline.records.documents import NodeDocument
from leadline.records.incarnations import Incarnation, Incarnations
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.terms import Term, begin_term, latest_term


class Node:
    """An agent on a machine with a clock of its own."""

    def __init__(
        self, run: Path, name: str, *, clock_ahead_seconds: float = 0.0, incarnation: int = 0, pid: int = 1
    ) -> None:
        make_folder(str(run / layout.NODES))
        self.now = 1000.0 + clock_ahead_seconds
        self._signs = 0
        self.election = Election(str(run), name, lambda: self.now, pid)
        self.documents = RunDocuments(str(run), name)
        self._incarnation = incarnation
        self._sign = run / layout.node_sign(name)

    def live(self, seconds: float, *, is_alive: bool = True) -> bool:
        """Let time pass, with or without a sign of life; return whether it is the primary agent then."""
        self.now += seconds
        if is_alive:
            self.documents.heartbeat()
            self.documents.set_node(NodeDocument(self.documents.node, state="running", incarnation=self._incarnation))
            self._signs += 1
            os.utime(self._sign, ns=(self._signs, self._signs))  # any clock may be behind the times
        self.election.poll()
        return self.election.is_primary

    def end(self) -> None:
        self.documents.set_node(NodeDocument(self.documents.node, state="ended", incarnation=self._incarnation))


def test_the_first_agent_is_primary_and_stays_while_it_gives_signs(tmp_path: Path) -> None:
    first, second = Node(tmp_path, "a"), Node(tmp_path, "b", clock_ahead_seconds=7200)
    assert first.live(0)
    for _ in range(20):
        assert not second.live(SILENT_SECONDS / 3)
        assert first.live(SILENT_SECONDS / 3)
    assert latest_term(str(tmp_path)).number == 1


def test_a_silent_agent_is_replaced_by_one_of_the_others_and_steps_back(tmp_path: Path) -> None:
    first, *others = (Node(tmp_path, name, clock_ahead_seconds=hours * 3600) for hours, name in enumerate("abc"))
    assert first.live(0)
    assert not any(node.live(0) for node in others)
    assert not any(node.live(SILENT_SECONDS - 1) for node in others)
    assert [node.live(1) for node in others] == [True, False]
    assert [node.live(1) for node in others] == [True, False]
    assert latest_term(str(tmp_path)).number == 2
    assert not first.live(0), "it was only suspended"
    assert first.election.primary == "b"


def test_of_two_agents_that_begin_the_same_term_one_does(tmp_path: Path) -> None:
    assert begin_term(str(tmp_path), Term(1, "a"))
    assert not begin_term(str(tmp_path), Term(1, "b"))
    assert latest_term(str(tmp_path)).node == "a"


def test_the_end_of_the_primary_agent_needs_no_waiting(tmp_path: Path) -> None:
    first, second = Node(tmp_path, "a"), Node(tmp_path, "b")
    assert (first.live(0), second.live(0)) == (True, False)
    first.end()
    assert second.live(0)
    second.election.resign()
    assert not second.live(SILENT_SECONDS)


def test_an_agent_that_starts_again_on_its_node_is_primary_at_once(tmp_path: Path) -> None:
    assert Node(tmp_path, "a").live(0)
    assert Node(tmp_path, "a", pid=2).live(0)
    assert latest_term(str(tmp_path)).number == 2


def test_terms_of_an_earlier_incarnation_do_not_count(tmp_path: Path) -> None:
    assert Node(tmp_path, "a").live(0)
    resumed = Incarnations(starts=(Incarnation(1, 1, None, "Interrupted", None, 4),))
    write_document(str(tmp_path / layout.INCARNATIONS), resumed)
    second = Node(tmp_path, "b", incarnation=1)
    assert second.live(0)
    assert second.election.others.running(second.now) == []
