"""Creation of a run that is uploaded: its name in the store is claimed before anything is written."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final

from leadline.errors import LeadlineError, RunExistsError, RunNotWritableError
from leadline.records.documents import RunStatus
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.remote.exchange import participant
from leadline.remote.fetching import FileFetcher
from leadline.remote.object_store import ObjectExistsError, ObjectMissingError, ObjectStore
from leadline.remote.objects import is_data, is_uploaded
from leadline.store import layout
from leadline.store.documents import encode, make_folder, write_document
from leadline.store.presence import acquire_lock, node_name, release_lock
from leadline.store.run_state import check_format, create_run
from leadline.store.terms import Term, begin_term
from leadline.store.upload_state import DEFAULT_MAX_BYTES, UploadState, read_upload, write_upload

_SILENT_SECONDS: Final = 60.0
"""A run without a sign of life of any node for so long, by the clock of the store, has ended."""
_ALIVE_SECONDS: Final = 15.0
"""A node with a younger sign of life is running."""
_POLL_SECONDS: Final = 0.05
_PARALLEL: Final = 16


class RunOverError(RunExistsError):
    """The run to join has ended."""


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
        RunOverError: The run has ended.
        RunExistsError: There is another run at the path, or another node of that name.
        StoreError: The store cannot be used. Nothing was created.
        RunNotWritableError: The run directory cannot be written.
    """
    uri, node = f"{root}/{os.path.basename(path)}", node or node_name()
    store, state = store or ObjectStore(uri), UploadState(uri, max_bytes=max_bytes, node=node)
    lock_path = f"{path}@{node}.lock"
    try:
        make_folder(os.path.dirname(path))
        while (lock := acquire_lock(lock_path)) is None:  # another process of this node enters the run
            time.sleep(_POLL_SECONDS)
    except OSError as error:
        raise RunNotWritableError(f"the run cannot be written at {path}: {error.strerror}") from None
    try:
        return _enter(path, replace(manifest, uri=uri), store, state)
    finally:
        release_lock(lock, lock_path)


def _enter(path: str, manifest: Manifest, store: ObjectStore, state: UploadState) -> str:
    for folder in (path, f"{path}@{state.node}"):
        if not os.path.exists(folder):
            break
        given = read_upload(folder)
        if (given.uri, given.node) == (state.uri, state.node):
            _check_running(store, state, is_here=True)
            return folder
    else:
        raise RunExistsError(f"another run exists at {path}; set LEADLINE_SPOOL to another folder")
    if not _create(folder, manifest, store, state):
        _check_running(store, state, is_here=False)
        _join(folder, store, state)
    return folder


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


def _check_running(store: ObjectStore, state: UploadState, *, is_here: bool) -> None:
    """Raise an error if a run has ended, also where no agent could record that, or is that of a later version.

    Times are compared by the clock of the store alone.

    Args:
        is_here: Whether this node has a directory of the run; if not, no other one may have its name.
    """
    check_format(_json(store.get(layout.MANIFEST)), state.uri)
    try:
        status = RunStatus.from_dict(_json(store.get(layout.STATUS))).status
    except ObjectMissingError:  # the first node has not uploaded it yet
        status = ""
    if status in JOB_ENDED:
        raise RunOverError(f"the run at {state.uri} has ended ({status}) and cannot be joined; give another name")
    own = layout.node_sign(state.node)
    written = {stored.name: stored.modified_seconds for stored in store.folder()[1]}
    if layout.INCARNATIONS in written:
        raise RunOverError(
            f"the run at {state.uri} was resumed on another machine and cannot be joined; give another name"
        )
    before = {stored.name: stored.modified_seconds for stored in store.folder(layout.NODES)[1]}
    store.put(own, b"joining")
    signs = {stored.name: stored.modified_seconds for stored in store.folder(layout.NODES)[1]}
    others = (seconds for name, seconds in signs.items() if name.endswith(".alive") and name != own)
    if not is_here and own in before and signs[own] - before[own] < _ALIVE_SECONDS:
        raise RunExistsError(
            f"another machine of the run at {state.uri} is named {state.node}; set LEADLINE_NODE_NAME to another name"
        )
    latest = max([written[layout.MANIFEST], *others])
    if signs[own] - latest > _SILENT_SECONDS:
        store.delete([own])
        raise RunOverError(f"the run at {state.uri} was interrupted and cannot be joined; give another name")


def _json(content: bytes) -> object:
    """Return a decoded document; None: it is damaged."""
    try:
        return json.loads(content)
    except ValueError:
        return None


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
