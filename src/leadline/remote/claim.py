"""Creation of a run that is uploaded: its name in the store is claimed before anything is written."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from leadline.errors import LeadlineError, RunExistsError, RunNotFoundError, RunNotWritableError
from leadline.records.documents import RunStatus
from leadline.records.incarnations import Incarnations
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.remote.exchange import participant
from leadline.remote.fetching import FileFetcher, stored_document
from leadline.remote.object_store import ObjectExistsError, ObjectStore, StoredObject
from leadline.remote.objects import is_data, is_uploaded
from leadline.store import layout
from leadline.store.documents import encode, make_folder, write_document
from leadline.store.incarnations import read_incarnations
from leadline.store.node_lock import acquire_lock, node_name, release_lock
from leadline.store.run_state import check_format, create_run
from leadline.store.terms import Term, begin_term
from leadline.store.upload_state import DEFAULT_MAX_BYTES, UploadState, read_upload, write_upload

_SILENT_SECONDS: Final = 60.0
"""A run without a sign of life of any node for so long, by the clock of the store, has ended."""
_ALIVE_SECONDS: Final = 15.0
"""A node with a younger sign of life is running."""
_WATCH_SECONDS: Final = 15.0
"""A run of which nothing changes in the store for so long has no job: a job uploads its samples every few seconds."""
_WATCH_POLL_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05
_PARALLEL: Final = 16
_JOINING: Final = b"joining"
"""The sign of a node that is about to join."""
RESUMING: Final = b"resuming"
"""The sign of a node that has begun an incarnation which others may join; those of agents are longer."""
_RESUMED: Final = ("Interrupted", "Failed")
"""A run that has ended in one of these ways is resumed by a job that joins it."""


class RunOverError(RunExistsError):
    """The run to join has ended."""


class RunInterruptedError(RunOverError):
    """The run to join was interrupted, or has failed: its nodes may resume it together."""


class RunResumedError(RunExistsError):
    """The run to join was resumed by other nodes, and this one has not what it needs to continue it."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """What the store tells of a run that nodes join."""

    status: str = ""
    """That of its job; ``Interrupted`` also where no agent could record it; "": running, not recorded yet."""
    incarnations: Incarnations = field(default_factory=Incarnations)
    term: Term = field(default_factory=Term)
    """The latest one."""
    stopped_by: str | None = None
    is_joint: bool = True
    """Whether further nodes can take part."""

    @property
    def incarnation(self) -> int:
        """The incarnation that has begun, or that a node has claimed."""
        return max(self.incarnations.number, self.term.incarnation)

    @property
    def is_being_resumed(self) -> bool:
        """Whether a node has claimed the next incarnation, and not begun it yet."""
        return self.term.incarnation > self.incarnations.number


def create_uploaded_run(
    path: str, root: str, manifest: Manifest, store: ObjectStore | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> None:
    """Create a run directory whose contents are uploaded, and its manifest in the store.

    Args:
        path: The run directory.
        root: The URI below which the run is uploaded.
        store: The store of the run; None: that of the URI.
        max_bytes: The bound of the run directory.
    Raises:
        RunExistsError: The store has a run of that name; of two jobs that claim it at once, one gets this error.
        StoreError: The store cannot be written. Nothing was created.
        RunNotWritableError: The run directory cannot be written.
    """
    uri = f"{root}/{os.path.basename(path)}"
    store = store or ObjectStore(uri)
    if not _create(path, replace(manifest, uri=uri), store, UploadState(uri, max_bytes=max_bytes)):
        raise RunExistsError(f"a run already exists at {uri}; choose another --name")


def enter_uploaded_run(
    path: str,
    root: str,
    manifest: Manifest,
    store: ObjectStore | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    node: str = "",
) -> str:
    """Create a run that the nodes of a job share through the store, or join it; return this node's run directory.

    Args:
        path: The run directory; where another node has one at that path, ``@`` and the name of this node are added.
        root: The URI below which the run is uploaded.
        store: The store of the run; None: that of the URI.
        max_bytes: The bound of the run directory.
        node: The name of this node; "": that of this machine.
    Raises:
        RunOverError: The run has ended; RunInterruptedError: its nodes may resume it.
        RunResumedError: They have, and this node has not what it needs to continue it.
        RunExistsError: There is another run at the path, or another node of that name.
        StoreError: The store cannot be used. Nothing was created.
        RunNotWritableError: The run directory cannot be written.
    """
    uri, node = f"{root}/{os.path.basename(path)}", node or node_name()
    store, state = store or ObjectStore(uri), UploadState(uri, max_bytes=max_bytes, node=node)
    with entering(path, node):
        folder = folder_of_node(path, state)
        if os.path.exists(folder):
            if not has_agent(folder, node):
                _check_joinable(store, state, folder)
        elif not _create(folder, replace(manifest, uri=uri), store, state):
            _check_joinable(store, state, folder)
            _join(folder, store, state)
        return folder


@contextmanager
def entering(path: str, node: str) -> Iterator[None]:
    """Wait until no other process of a node enters the run at a path, and keep others waiting.

    Raises:
        RunNotWritableError: The runs directory cannot be written.
    """
    lock_path = f"{path}@{node}.lock"
    try:
        make_folder(os.path.dirname(path))
        while (lock := acquire_lock(lock_path)) is None:
            time.sleep(_POLL_SECONDS)
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {path}: {error.strerror}") from None
    try:
        yield
    finally:
        release_lock(lock, lock_path)


def folder_of_node(path: str, state: UploadState) -> str:
    """Return the run directory of a node, which need not exist: the path itself, unless another node has it.

    Raises:
        RunExistsError: There is another run at the path.
    """
    for folder in (path, f"{path}@{state.node}"):
        given = read_upload(folder)
        if not os.path.exists(folder) or (given.uri, given.node) == (state.uri, state.node):
            return folder
    raise RunExistsError(f"another run exists at {path}; set LEADLINE_SPOOL to another folder")


def has_agent(folder: str, node: str) -> bool:
    """Return whether an agent of this node is running on a run directory."""
    path = os.path.join(folder, layout.node_lock(node))
    if not os.path.exists(path) or (lock := acquire_lock(path)) is None:
        return os.path.exists(path)
    release_lock(lock, path)
    return False


def _create(path: str, manifest: Manifest, store: ObjectStore, state: UploadState) -> bool:
    """Create a run in the store and its directory; return whether it did not exist yet."""
    created = [layout.MANIFEST]
    try:
        store.put(layout.MANIFEST, encode(manifest.to_dict()) + b"\n", create=True)
    except ObjectExistsError:
        return False
    try:
        create_run(path, manifest)
        write_upload(path, state)
        if state.is_joint:  # the process that creates the run becomes its primary agent
            term = Term(1, state.node, 0, os.getpid())
            with suppress(ObjectExistsError):
                store.put(layout.term(term.number), encode(term) + b"\n", create=True)
                created.append(layout.term(term.number))
                begin_term(path, term)
    except BaseException:
        with suppress(LeadlineError):
            store.delete(created)
        raise
    return True


def _check_joinable(store: ObjectStore, state: UploadState, folder: str) -> None:
    """Raise an error unless the job of a run is running, in the incarnation that a run directory belongs to."""
    found = stored_state(store, state, is_here=os.path.exists(folder))
    try:
        _check_state(found, state, read_incarnations(folder).number)
    except RunExistsError:
        store.delete([layout.node_sign(state.node)])
        raise


def _check_state(found: StoredState, state: UploadState, number: int) -> None:
    if found.is_being_resumed:
        raise RunResumedError(f"another node resumes the run at {state.uri}")
    if found.status in _RESUMED:
        raise RunInterruptedError(f"the run at {state.uri} was interrupted; its nodes may resume it")
    if found.status in JOB_ENDED:
        raise RunOverError(f"the run at {state.uri} has ended ({found.status}) and cannot be joined; give another name")
    if not found.is_joint:
        raise RunOverError(
            f"the run at {state.uri} is that of one machine alone and cannot be joined; give another name"
        )
    if found.incarnations.number > number:
        raise RunResumedError(f"the run at {state.uri} was resumed by other nodes")


def stored_state(store: ObjectStore, state: UploadState, *, is_here: bool) -> StoredState:
    """Find out whether the job of a run is running, and leave a sign of this node.

    Times are compared by the clock of the store alone. Unless the job has just started, a run is watched for some
    seconds: where its agents were killed, nothing tells their end.

    Args:
        is_here: Whether this node has a directory of the run; if not, no other one may have its name.
    Raises:
        RunNotFoundError: There is no run.
        RunExistsError: Another node has the name of this one.
        NewerRunError: The run is that of a later version.
        StoreError: The store cannot be used.
    """
    if (manifest := stored_document(store, layout.MANIFEST)) is None:
        raise RunNotFoundError(
            f"there is no run at {state.uri}; leadline ls {state.uri.rpartition('/')[0]} lists the runs"
        )
    check_format(manifest, state.uri)
    found = _recorded_state(store)
    while found.status not in JOB_ENDED and not found.is_being_resumed:
        seen = _watched_state(store, state, found, is_here=is_here)
        latest = _recorded_state(store)
        if latest.status not in JOB_ENDED and latest.incarnation == found.incarnation:
            return seen
        found, is_here = latest, True  # it has ended meanwhile, or another node has resumed it
    return found


def _watched_state(store: ObjectStore, state: UploadState, found: StoredState, *, is_here: bool) -> StoredState:
    """Return what the signs of nodes tell of a job whose end was not recorded."""
    own = layout.node_sign(state.node)
    written = {stored.name: stored.modified_seconds for stored in store.folder()[1]}
    listed = store.folder(layout.NODES)[1]
    before = {stored.name: stored.modified_seconds for stored in listed}
    given = [stored.modified_seconds for stored in listed if _is_sign(stored)]
    store.put(own, _JOINING)
    listed = store.folder(layout.NODES)[1]
    (now,) = (stored.modified_seconds for stored in listed if stored.name == own)
    others = [stored.modified_seconds for stored in listed if stored.name != own and _is_sign(stored, RESUMING)]
    if not is_here and own in before and now - before[own] < _ALIVE_SECONDS:
        raise RunExistsError(
            f"another machine of the run at {state.uri} is named {state.node}; set LEADLINE_NODE_NAME to another name"
        )
    started = written.get(layout.INCARNATIONS, written[layout.MANIFEST])
    is_joint = any(sign >= started for sign in (*given, *others))
    if now - started < _SILENT_SECONDS and all(sign < started for sign in given):  # no agent has begun yet
        is_joint = is_joint or not found.incarnations.number or _is_alive(store, own, is_joint=True)
        return replace(found, is_joint=is_joint)
    is_silent = is_joint and now - max([started, *others]) >= _SILENT_SECONDS
    if not is_silent and _is_alive(store, own, is_joint=is_joint):
        return replace(found, is_joint=is_joint)
    store.delete([own])
    return replace(found, status="Interrupted")


def _recorded_state(store: ObjectStore) -> StoredState:
    """Return what the documents of a run tell of its job."""
    status = RunStatus.from_dict(stored_document(store, layout.STATUS))
    incarnations = Incarnations.from_dict(stored_document(store, layout.INCARNATIONS))
    terms = [stored.name for stored in store.folder(layout.TERMS)[1]]
    term = Term.from_dict(stored_document(store, max(terms))) if terms else Term()
    return StoredState(status.status, incarnations, term, status.stopped_by)


def _is_sign(stored: StoredObject, least: bytes = RESUMING + b"+") -> bool:
    """Return whether an object is the sign of an agent, or one that is at least as long as a given one."""
    return stored.name.endswith(".alive") and stored.nbytes >= len(least)


def _is_alive(store: ObjectStore, own: str, *, is_joint: bool) -> bool:
    """Return whether another node's agent gives a sign within some seconds, or a job that runs alone adds to a run."""

    def state() -> list[StoredObject]:
        listed = store.folder(layout.NODES)[1] if is_joint else store.objects()
        others = (stored for stored in listed if stored.name != own)
        return [stored for stored in others if _is_sign(stored) or not (is_joint or stored.name.endswith(".alive"))]

    before, end = state(), time.monotonic() + _WATCH_SECONDS
    while time.monotonic() < end:
        time.sleep(_WATCH_POLL_SECONDS)
        if state() != before:
            return True
    return False


def _join(path: str, store: ObjectStore, state: UploadState) -> None:
    """Make this node's directory of a run, with the documents that are in the store."""
    listed = [stored for stored in store.objects() if _is_document(stored.name, state.node)]
    try:
        for folder in (*layout.FOLDERS, layout.TERMS):
            make_folder(os.path.join(path, folder))
        others = sorted({owner for stored in listed if (owner := participant(stored.name)) is not None})
        write_document(os.path.join(path, layout.OTHERS), others)
        write_upload(path, state)
        files = FileFetcher(store, path)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            contents = list(pool.map(files.content, listed))
        for stored, content in sorted(zip(listed, contents, strict=True), key=lambda pair: pair[0].name):
            if content is not None:
                files.write(stored.name, content)
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, LeadlineError):
            raise
        raise RunNotWritableError(f"the run cannot be written at {path}: {error.strerror}") from None


def _is_document(name: str, node: str) -> bool:
    is_sign = name.endswith(".alive")
    return not is_data(name) and (is_sign or is_uploaded(name)) and participant(name) != f"{layout.NODES}/{node}"
