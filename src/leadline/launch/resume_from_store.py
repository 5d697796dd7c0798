"""Resumption of a run by nodes that share only an object store: one begins the incarnation, the others take part."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from typing import Final

from leadline.errors import LeadlineError, RunExistsError
from leadline.reader.liveness import ended_document
from leadline.records.describe import sender
from leadline.records.names import JOB_ENDED
from leadline.remote.claim import RESUMING, StoredState, entering, folder_of_node, has_agent, stored_state
from leadline.remote.object_store import ObjectExistsError, ObjectStore
from leadline.remote.rejoin import fetch_run, own_workers, upload_rest
from leadline.store import layout
from leadline.store.documents import encode, write_document
from leadline.store.incarnations import begin_incarnation, read_incarnations
from leadline.store.node_lock import node_name
from leadline.store.run_state import read_status
from leadline.store.terms import Term
from leadline.store.upload_state import UploadState

_TIMEOUT_SECONDS: Final = 300.0
"""The time in which the node that has claimed an incarnation fetches the run and begins it."""
_POLL_SECONDS: Final = 1.0


def resume_joint(
    path: str,
    uri: str,
    *,
    max_bytes: int,
    step: int | None = None,
    is_stop_ignored: bool = False,
    node: str = "",
    store: ObjectStore | None = None,
) -> str:
    """Begin the next incarnation of a run whose nodes share only a store, or take part in the one that another began.

    Args:
        path: The run directory, or that of another node.
        uri: The URI of the run.
        max_bytes: The bound of the run directory, if it is made.
        step: The train step at which it continues; None: it follows from the checkpoint that the script loads.
        is_stop_ignored: Whether a run that a rule has stopped is resumed, too.
        node: The name of this node; "": that of this machine.
        store: The store of the run; None: that of the URI.
    Returns:
        The run directory of this node.
    Raises:
        RunExistsError: The run is running, a rule has stopped it, or another run or node has the name.
        StoreError: The store cannot be used.
        RunNotWritableError: The run directory cannot be written.
        LeadlineError: It is no readable run.
    """
    state = UploadState(uri, max_bytes=max_bytes, node=node or node_name())
    store = store or ObjectStore(uri)
    with entering(path, state.node):
        run = folder_of_node(path, state)
        is_new = not os.path.exists(run)
        if has_agent(run, state.node):
            raise RunExistsError(_running(os.path.basename(uri), read_status(run).status))
        try:
            _enter(run, store, state, step, is_stop_ignored=is_stop_ignored)
        except BaseException:
            if is_new:
                shutil.rmtree(run, ignore_errors=True)
            with suppress(LeadlineError):
                store.delete([layout.node_sign(state.node)])
            raise
        return run


def _enter(run: str, store: ObjectStore, state: UploadState, step: int | None, *, is_stop_ignored: bool) -> None:
    end, name = time.monotonic() + _TIMEOUT_SECONDS, os.path.basename(state.uri)
    is_here = os.path.exists(run)
    while True:
        found = stored_state(store, state, is_here=is_here)
        is_here = True  # the sign in the store is this node's own
        if found.is_being_resumed and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            continue
        if found.status not in JOB_ENDED and not found.is_being_resumed:
            _take_part(run, store, state, found, name)
            return
        _check_stop(name, found, is_stop_ignored=is_stop_ignored)
        claim = Term(found.term.number + 1, state.node, found.incarnations.number + 1, os.getpid())
        with suppress(ObjectExistsError):  # then another node resumes the run
            store.put(layout.term(claim.number), encode(claim) + b"\n", create=True)
            _begin(run, store, state, found, claim, step)
            return


def _running(name: str, status: str) -> str:
    return f"{name} cannot be resumed: it is {status}; wait for its end, or stop it with: leadline stop {name}"


def _check_stop(name: str, found: StoredState, *, is_stop_ignored: bool) -> None:
    rule = sender(found.stopped_by)
    if found.status == "Stopped" and rule != found.stopped_by and not is_stop_ignored:
        raise RunExistsError(
            f"{name} is not resumed: {rule} has stopped it (leadline show {name}); "
            "to resume it all the same: --resume-stopped"
        )


def _begin(run: str, store: ObjectStore, state: UploadState, found: StoredState, claim: Term, step: int | None) -> None:
    """Begin an incarnation that this node has claimed; the others begin when its document is in the store."""
    try:
        _prepare(run, store, state, found, claim, step)
    except BaseException:
        with suppress(LeadlineError):  # otherwise another node claims the next term after a while
            store.delete([layout.term(claim.number)])
        raise
    store.put(layout.STATUS, encode(read_status(run)) + b"\n")
    store.put(layout.INCARNATIONS, encode(read_incarnations(run)) + b"\n")
    store.put(layout.node_sign(state.node), RESUMING)


def _prepare(
    run: str, store: ObjectStore, state: UploadState, found: StoredState, claim: Term, step: int | None
) -> None:
    from leadline.reader.resumption import next_incarnation  # reads tables, which nothing else here does

    if layout.is_run(run) and read_incarnations(run).number == found.incarnations.number:
        upload_rest(run, store, state.node)  # otherwise the run has gone on without this node, and replaced it
    fetch_run(run, store, state, has_raw=True)
    if found.incarnations.number:
        write_document(os.path.join(run, layout.INCARNATIONS), found.incarnations)
    write_document(os.path.join(run, layout.term(claim.number)), claim)
    write_document(os.path.join(run, layout.STATUS), ended_document(run))
    begin_incarnation(run, *next_incarnation(run, step))


def _take_part(run: str, store: ObjectStore, state: UploadState, found: StoredState, name: str) -> None:
    """Continue an incarnation that another node has begun."""
    from leadline.reader.resumption import with_streams_of  # reads tables, as above

    if not found.is_joint or (os.path.exists(run) and found.incarnations.number <= read_incarnations(run).number):
        raise RunExistsError(_running(name, found.status))
    workers = own_workers(run)
    fetch_run(run, store, state, has_raw=False)
    incarnations = with_streams_of(run, found.incarnations, workers, state.node)
    shutil.rmtree(os.path.join(run, layout.COMPACT), ignore_errors=True)
    write_document(os.path.join(run, layout.INCARNATIONS), incarnations)
