"""The documents of a run that the agent writes: status, node and the completed manifest, also on a full disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from leadline.records import describe
from leadline.records.documents import NodeDocument, RuleDocument, RunStatus, Transition
from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, InPlaceDocument, make_subfolder, read_document, write_document
from leadline.store.run_state import read_rule, read_rule_summary, read_status

_RESERVE_BYTES: Final = 256 << 10
"""What the last documents of a run take: a manifest with its workers has some 80 kB, more with many ranks."""


class RunDocuments:
    """The documents of a run that only the agent writes.

    A document that cannot be written is kept and written later. At the end of the job a reserve file is deleted to
    make room for it. While the job runs the reserve is kept: the job would use up whatever was freed.
    """

    def __init__(
        self, run: str, node: str, clock: Callable[[], int] = time.time_ns, *, is_secondary: bool = False
    ) -> None:
        """
        Args:
            is_secondary: Whether the agent of another node writes the status and completes the manifest.
        """
        self.run, self.node = run, node
        self.is_secondary = is_secondary
        self.started_ns = clock()
        self._clock = clock
        self._pending: dict[str, object] = {}
        self._reserve = os.path.join(run, layout.RESERVE)
        self._node: InPlaceDocument | None = None
        self._node_written: NodeDocument | None = None
        self.status = self._read_status()
        self._make_reserve()

    def path(self, name: str) -> str:
        """Return the path of a file in the run directory."""
        return os.path.join(self.run, name)

    def lead(self) -> None:
        """Continue the documents of the primary agent, which is gone."""
        self.is_secondary = False
        self.status = self._read_status()
        self._make_reserve()

    def follow(self) -> None:
        """Leave the documents of the primary agent to that of another node."""
        self._free_reserve()
        self._pending.clear()
        self.is_secondary = True

    def heartbeat(self) -> None:
        """Touch the file that shows the agents of other nodes that this one is alive."""
        path = self.path(layout.node_sign(self.node))
        try:
            with open(path, "ab", opener=_private):
                os.utime(path)
        except OSError:  # the run was removed, or the disk is full: the next sign is tried again
            return

    def _read_status(self) -> RunStatus:
        stored = read_status(self.run)
        began = (Transition(stored.status, self.started_ns),)
        return replace(stored, transitions=stored.transitions or began, node=stored.node or self.node)

    def _make_reserve(self) -> None:
        if self.is_secondary:
            return
        try:
            with open(self._reserve, "wb", opener=_private) as file:
                file.write(bytes(_RESERVE_BYTES))
        except OSError:  # the disk is full already: no reserve can be kept
            self._free_reserve()

    def _free_reserve(self) -> None:
        if self.is_secondary:
            return
        try:
            os.unlink(self._reserve)
        except OSError:
            return

    def set_status(self, **changes: Any) -> None:
        """Change the status document; a new ``status`` is recorded as a transition."""
        before, self.status = self.status, replace(self.status, **changes)
        if self.status.status != before.status:
            transition = Transition(self.status.status, self._clock())
            self.status = replace(self.status, transitions=(*before.transitions, transition))
        self._write(layout.STATUS, self.status)

    def set_node(self, document: NodeDocument) -> None:
        """Write the document of this node, if it changed."""
        if document == self._node_written:
            return
        try:
            if self._node is None:
                make_subfolder(self.path(layout.NODES))
                self._node = InPlaceDocument(self.path(layout.node_document(self.node)), document)
            else:
                self._node.write(document)
        except OSError:  # written again with the next change, and into the manifest
            return
        self._node_written = document

    def _write(self, name: str, document: Any) -> None:
        if self.is_secondary:
            return
        try:
            write_document(self.path(name), document)
        except OSError:
            self._pending[name] = document
        else:
            self._pending.pop(name, None)

    def retry(self) -> None:
        """Write what could not be written before."""
        for name, document in list(self._pending.items()):
            self._write(name, document)

    @property
    def has_unwritten(self) -> bool:
        return bool(self._pending)

    def give_up_reserve(self) -> None:
        """Delete the reserve at the end of the job, and write the pending documents."""
        self._free_reserve()
        self.retry()

    def fold_manifest(self, **additions: Any) -> None:
        """Add entries to the manifest."""
        manifest = read_document(self.path(layout.MANIFEST))
        if isinstance(manifest, dict):
            self._write(layout.MANIFEST, manifest | additions)

    def stop_rules(self) -> None:
        """Mark the rules that no judge evaluates any more; those that are clear so far keep that verdict."""
        summary = read_rule_summary(self.run)
        if summary is None:
            return
        unfinished = {rule.name for rule in summary.rules if rule.status == "InProgress"}
        stopped: dict[str, RuleDocument] = {}
        for name in unfinished:
            stopped[name] = _stopped(read_rule(self.run, name) or RuleDocument(name=name))
            self._write(layout.rule_status(name), stopped[name])
        rules = tuple(
            replace(rule, status=state.status, verdict=state.verdict, why=state.why)
            if (state := stopped.get(rule.name)) is not None
            else rule
            for rule in summary.rules
        )
        if unfinished:
            self._write(layout.RULE_SUMMARY, replace(summary, rules=rules))

    def abandon(self) -> None:
        """Record that the job could not be started."""
        self.set_status(status="Failed", exit_status=2, ended_ns=self._clock())
        self.close()

    def close(self) -> None:
        """Delete the reserve and write the pending documents."""
        self._free_reserve()
        self.retry()
        if self._node is not None:
            self._node.close()
        with suppress(FileNotFoundError):
            os.unlink(self.path(layout.node_sign(self.node)))


def _stopped(document: RuleDocument) -> RuleDocument:
    """Return the document of a rule once no judge evaluates it any more."""
    if document.verdict in ("clear", "not_applicable"):
        is_clear = document.verdict == "clear"
        why = describe.ended_early(document.judged_step) if is_clear else document.why
        return replace(document, status="Stopped", why=why)
    return replace(document, status="Stopped", verdict="undecided", why=describe.ENDED_EARLY)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
