"""The exchange between the nodes of a run that share only an object store.

Each node has a run directory of its own and uploads what its processes write. From the store it takes the rest: the
documents of the others, on the node of the primary agent also their captured data, so that the judge reads it there
as in a run directory that all nodes see. The status, rules, actions and reports are those of the primary agent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from leadline.errors import LeadlineError
from leadline.records.describe import AGENT
from leadline.remote.fetching import FileFetcher
from leadline.remote.object_store import ObjectExistsError, ObjectMissingError, ObjectStore, StoredObject
from leadline.remote.objects import by_file, document_order, is_data, is_uploaded
from leadline.store import layout
from leadline.store.documents import encode, make_folder, read_document, write_document
from leadline.store.folder_watch import names_in
from leadline.store.incarnations import read_incarnations
from leadline.store.run_files import read_regular
from leadline.store.terms import Term, latest_term, proposed_term, read_term, withdraw_term

PULSE_SECONDS: Final = 2.0
_CONNECTED_SECONDS: Final = 15.0
"""A term is begun after the store could be read for so long: before, this node was perhaps the silent one."""
_PARALLEL: Final = 16
_BY_WORKER: Final = (layout.TENSORS, layout.SERIES, layout.TIMELINE, layout.PROFILES)


def participant(name: str) -> str | None:
    """Return the worker or node of a file, as ``workers/…`` or ``nodes/…``; None: it belongs to the run."""
    part, _, rest = name.partition("/")
    if part in _BY_WORKER:
        return f"{layout.WORKERS}/{rest.partition('/')[0]}"
    if part == layout.SYSTEM:
        return f"{layout.NODES}/{rest.partition('/')[0]}"
    if part == layout.WORKERS:
        return f"{layout.WORKERS}/{rest.partition('.')[0]}"
    if part == layout.NODES:
        return f"{layout.NODES}/{rest.rpartition('.')[0]}"
    if name.startswith(f"{layout.ACKS}/"):
        sender = rest.partition("/")[2].partition(".")[2].removesuffix(".json")
        is_agent = sender.startswith(AGENT)
        return f"{layout.NODES}/{sender.removeprefix(AGENT)}" if is_agent else f"{layout.WORKERS}/{sender}"
    return None


class Exchange:
    """Takes from the store what the other nodes of a run have uploaded.

    **No two nodes write one object** - a worker and a node belong to the run directory in which they were found first,
    and the rest to the node of the latest term.

    Args:
        run: The run directory of this node.
        store: The objects of the run.
        node: The name of this node.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, run: str, store: ObjectStore, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._store = store
        self._node = node
        self._clock = clock
        self._files = FileFetcher(store, run)
        self._others: set[str] = set(read_document(os.path.join(run, layout.OTHERS)) or ())
        self._tags: dict[str, str] = {}
        """The tags of the documents that were fetched, by name."""
        self._sizes: dict[str, int] = {}
        """The sizes of the data files that were fetched, by name: the spool may have removed them since."""
        self._sign = 0
        self._connected_at: float | None = None
        self._job = read_incarnations(run).job
        self._begun: Term | None = None
        """The term of this node that its agent does not know yet: the data that the judge needs is fetched first."""
        self._lock = threading.Lock()
        """Held while what was fetched is written: two threads may fetch the same document."""

    @property
    def is_primary(self) -> bool:
        """Whether the agent of this node writes what belongs to the whole run."""
        return latest_term(self._run).node == self._node

    @property
    def has_taken_over(self) -> bool:
        """Whether the agent of this node has become the primary one after that of another node."""
        return self.is_primary and latest_term(self._run).number > 1

    def is_own(self, name: str) -> bool:
        """Return whether this node uploads a file of its run directory."""
        owner = participant(name)
        if owner is not None:
            return owner not in self._others
        return not _is_term(name) and not _is_request(name) and self.is_primary

    def take_workers(self) -> None:
        """Notice which workers of earlier incarnations the processes of this node continue: they are its own from now.

        Raises:
            OSError: A file cannot be read or written.
        """
        before = set(self._others)
        for name in names_in(os.path.join(self._run, layout.WORKERS)):
            worker, _, number = name.rpartition(".")
            owner = f"{layout.WORKERS}/{worker}"
            if number.isdecimal() and int(number) >= self._job and owner in self._others and self._is_claim_here(name):
                self._others.discard(owner)
        if self._others != before:
            write_document(os.path.join(self._run, layout.OTHERS), sorted(self._others))

    def _is_claim_here(self, name: str) -> bool:
        return read_regular(os.path.join(self._run, layout.WORKERS, name)) == self._node.encode()

    def fetch(self) -> None:
        """Fetch what is new of the other nodes; documents are written after the data that they refer to.

        Raises:
            StoreError: The store cannot be read.
            OSError: A file cannot be written.
        """
        begun = self._begun
        is_primary = begun is not None or self.is_primary
        objects = self._store.objects()
        self._find_others(objects)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            changed = [stored for stored in objects if self._is_changed_document(stored)]
            contents = list(pool.map(self._files.content, changed))
            if is_primary:
                listed = by_file(self._store.objects() if changed else objects)
                files = {name: file for name, file in listed.items() if is_data(name) and not self._is_here(name)}
                new = {name: file for name, file in files.items() if self._sizes.get(name) != file.nbytes}
                list(pool.map(self._files.fetch, new, new.values()))
                self._sizes |= {name: file.nbytes for name, file in new.items()}
        pairs = zip(changed, contents, strict=True)
        for stored, content in sorted(pairs, key=lambda pair: document_order(pair[0].name)):
            self._write(stored, content)
        if begun is not None:
            make_folder(os.path.join(self._run, layout.TERMS))
            write_document(os.path.join(self._run, layout.term(begun.number)), begun)
            self._begun = None

    def pulse(self) -> None:
        """Exchange what must not wait for bulk data: signs of life, terms and requests.

        Raises:
            StoreError: The store cannot be used.
            OSError: A file cannot be written.
        """
        try:
            self._give_sign()
            signs = self._store.folder(layout.NODES)[1]
            self._fetch_small([stored for stored in signs if _is_sign(stored.name) and not self._is_here(stored.name)])
            self.fetch_terms()
            self._begin_term()
            self._exchange_requests()
        except (LeadlineError, OSError):
            self._connected_at = None
            raise

    def leave(self) -> None:
        """Take back the sign of life of this node, which has ended.

        Raises:
            StoreError: The store cannot be written.
        """
        if not os.path.exists(os.path.join(self._run, layout.node_sign(self._node))):
            self._store.delete([layout.node_sign(self._node)])

    def _find_others(self, objects: list[StoredObject]) -> None:
        """Record which workers and nodes are those of other run directories, before anything of them is here."""
        found = {owner for stored in objects if (owner := participant(stored.name)) is not None}
        new = {owner for owner in found - self._others if not self._was_written_here(owner)}
        if new:
            self._others |= new
            write_document(os.path.join(self._run, layout.OTHERS), sorted(self._others))

    def _is_written(self, name: str, content: bytes) -> bool:
        """Return whether a file has this content: one that is rewritten in place must not be replaced."""
        try:
            return read_regular(os.path.join(self._run, name)) == content
        except FileNotFoundError:
            return False

    def _was_written_here(self, owner: str) -> bool:
        kind, _, name = owner.partition("/")
        if kind == layout.NODES:
            return name == self._node
        folders = (os.path.join(self._run, part, name) for part in _BY_WORKER)
        return os.path.exists(os.path.join(self._run, layout.worker_document(name))) or any(
            map(os.path.exists, folders)
        )

    def _is_here(self, name: str) -> bool:
        return participant(name) not in self._others

    def _is_changed_document(self, stored: StoredObject) -> bool:
        name = stored.name
        if name == layout.INCARNATIONS:
            return False  # each node has its own, with the ends of its streams
        if is_data(name) or not is_uploaded(name) or _is_request(name) or _is_term(name) or self.is_own(name):
            return False
        return self._tags.get(name) != stored.tag

    def _write(self, stored: StoredObject, content: bytes | None) -> None:
        if content is None:
            return
        with self._lock:
            self.take_workers()
            if _is_term(stored.name) or not self.is_own(stored.name):  # it may have become this node's meanwhile
                if not self._is_written(stored.name, content):
                    self._files.write(stored.name, content)
                self._tags[stored.name] = stored.tag

    def _fetch_small(self, listed: list[StoredObject]) -> None:
        for stored in listed:
            if self._tags.get(stored.name) != stored.tag:
                self._write(stored, self._files.content(stored))

    def _give_sign(self) -> None:
        name = layout.node_sign(self._node)
        try:
            sign = os.stat(os.path.join(self._run, name)).st_mtime_ns
        except FileNotFoundError:  # the agent has ended
            return
        if sign != self._sign:
            self._store.put(name, str(sign).encode())
            self._sign = sign

    def fetch_terms(self) -> None:
        """Find out which node's agent is the primary one.

        Raises:
            StoreError: The store cannot be read.
            OSError: A file cannot be written.
        """
        begun = layout.term(self._begun.number) if self._begun is not None else ""
        self._fetch_small([stored for stored in self._store.folder(layout.TERMS)[1] if stored.name != begun])

    def _begin_term(self) -> None:
        """Ask the store for the term that the agent wants; of several nodes that want it, one gets it."""
        now = self._clock()
        self._connected_at = now if self._connected_at is None else self._connected_at
        wanted = proposed_term(self._run)
        if wanted is None or self._begun is not None:
            return
        is_connected = now - self._connected_at >= _CONNECTED_SECONDS
        if wanted.number > 1 and not is_connected and not self._is_free(wanted.number - 1):
            return
        try:
            self._store.put(layout.term(wanted.number), encode(wanted) + b"\n", create=True)
        except ObjectExistsError:
            self.fetch_terms()
        else:
            self._begun = wanted
        withdraw_term(self._run)

    def _is_free(self, number: int) -> bool:
        """Return whether the node of a term is this one, or has recorded its end."""
        term = read_term(self._run, number)
        document = read_document(os.path.join(self._run, layout.node_document(term.node)))
        return term.node == self._node or (isinstance(document, dict) and document.get("state") == "ended")

    def _exchange_requests(self) -> None:
        listed = {stored.name for stored in self._store.folder(layout.CONTROL)[1] if _is_request(stored.name)}
        folder = os.path.join(self._run, layout.CONTROL)
        make_folder(folder)
        here = {f"{layout.CONTROL}/{name}" for name in os.listdir(folder) if name.endswith(".json")}
        for name in sorted(listed - here):
            try:
                self._files.write(name, self._store.get(name))
            except ObjectMissingError:
                continue
        for name in sorted(here - listed):
            self._store.put(name, read_regular(os.path.join(self._run, name)))


def _is_request(name: str) -> bool:
    return name.startswith(f"{layout.CONTROL}/") and name.count("/") == 1 and name.endswith(".json")


def _is_term(name: str) -> bool:
    return name.startswith(f"{layout.TERMS}/")


def _is_sign(name: str) -> bool:
    return name.endswith(".alive")
