"""The nodes of a run as an agent sees them, and the election of the agent that writes its status and runs its judge."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from leadline.agent.progress import FileStamp
from leadline.records.documents import NodeDocument
from leadline.store import layout
from leadline.store.documents import read_with_retries
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import document_paths
from leadline.store.terms import Term, begin_term, latest_term, propose_term, withdraw_term
from leadline.store.upload_state import read_upload

SILENT_SECONDS: Final = 15.0
"""A node that has given no sign of life for so long is taken for dead."""


class OtherNodes:
    """The other nodes of a run's last incarnation: their documents, and when they last gave a sign of life.

    The time of a sign is when this process noticed it, by its own clock: the clocks of machines may differ.
    """

    def __init__(self, run: str, node: str) -> None:
        self.documents: dict[str, NodeDocument] = {}
        """The latest document of each other node, by name."""
        self._run, self._node = run, node
        self._incarnation = read_incarnations(run).job
        self._stamps: dict[str, FileStamp] = {}
        self._seen_at: dict[str, float] = {}

    def poll(self, now: float) -> None:
        """Read the documents that changed, and notice signs of life."""
        for node, path in document_paths(self._run, layout.NODES).items():
            if node != self._node:
                if self._has_changed(path):
                    self._read(node, path)
                if self._has_changed(os.path.join(self._run, layout.node_sign(node))):
                    self._seen_at[node] = now

    def _read(self, node: str, path: str) -> None:
        try:
            document = NodeDocument.from_dict(read_with_retries(path))
        except OSError:  # a network file system that fails: the next change is read
            return
        if document.incarnation == self._incarnation:
            self.documents[node] = document

    def _has_changed(self, path: str) -> bool:
        try:
            with open(path, "rb") as file:  # on a network file system, opening a file asks the server for its state
                stat = os.fstat(file.fileno())
        except OSError:
            return False
        stamp = stat.st_mtime_ns, stat.st_ino, stat.st_size
        if stamp == self._stamps.get(path):
            return False
        self._stamps[path] = stamp
        return True

    def running(self, now: float) -> list[str]:
        """Return the nodes that are part of the run now."""
        return [node for node in self.documents if not self.has_ended(node) and not self.is_silent(node, now)]

    def has_ended(self, node: str) -> bool:
        """Return whether the agent of a node has recorded its end."""
        return node in self.documents and self.documents[node].state == "ended"

    def is_silent(self, node: str, now: float) -> bool:
        """Return whether a node has given no sign of life for a while; of an unknown one, since the first call."""
        return now - self._seen_at.setdefault(node, now) >= SILENT_SECONDS

    def has_heartbeat_since(self, node: str, moment: float) -> bool:
        """Return whether a node has given a sign of life after a moment."""
        return self._seen_at.get(node, moment) > moment


class Election:
    """Which agent of a run is the primary one, that of the latest term.

    An agent begins the next term if the node of the latest one has ended, is silent, is its own (whose agent before
    it is gone) or took part in an earlier incarnation.

    Args:
        pid: The pid of this agent; None: that of this process.
    """

    def __init__(
        self, run: str, node: str, clock: Callable[[], float] = time.monotonic, pid: int | None = None
    ) -> None:
        self.is_primary = False
        self.is_proposing = False
        """Whether this agent waits for a term that it has asked the store for."""
        self.others = OtherNodes(run, node)
        self._run, self._node, self._clock = run, node, clock
        self._incarnation = read_incarnations(run).job
        self._term = Term()
        self._has_resigned = False
        self._pid = os.getpid() if pid is None else pid
        self._is_joint = read_upload(run).is_joint

    @property
    def primary(self) -> str:
        """The node of the primary agent."""
        return self._term.node

    def poll(self, *, may_begin: bool = True) -> None:
        """Find out which agent is the primary one.

        Args:
            may_begin: Whether this agent begins a term if there is reason to.
        """
        now = self._clock()
        self.others.poll(now)
        try:
            latest = latest_term(self._run)
            if latest.number > self._term.number:
                own = self._node, self._incarnation, self._pid
                self._term, self.is_primary = latest, (latest.node, latest.incarnation, latest.agent_pid) == own
            if may_begin and not self.is_primary and not self._has_resigned and self._is_vacant(now):
                self._begin()
            elif self.is_proposing:
                withdraw_term(self._run)
                self.is_proposing = False
        except OSError:  # where no term can be written, there is no other agent
            self.is_primary = self.is_primary or (not self._term.number and not self.others.documents)

    def resign(self) -> None:
        """Leave the run to the agents of other nodes."""
        self.is_primary, self._has_resigned = False, True

    def _is_vacant(self, now: float) -> bool:
        term = self._term
        is_earlier = not term.number or term.node == self._node or term.incarnation < self._incarnation
        return is_earlier or self.others.has_ended(term.node) or self.others.is_silent(term.node, now)

    def _begin(self) -> None:
        term = Term(self._term.number + 1, self._node, self._incarnation, self._pid)
        if self._is_joint:
            propose_term(self._run, term)
            self.is_proposing = True
        elif begin_term(self._run, term):
            self._term, self.is_primary = term, True
