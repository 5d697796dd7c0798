"""A run directory made from an object store, in which a run is resumed on another machine than before."""

from __future__ import annotations

import os
import shutil
import time
from typing import Final

from leadline.errors import RunExistsError, RunNotWritableError
from leadline.reader.liveness import ended_document
from leadline.records.names import JOB_ENDED
from leadline.remote.mirror import fill_all, mirror_run
from leadline.remote.object_store import ObjectExistsError, ObjectStore
from leadline.store import layout
from leadline.store.documents import encode, make_folder, write_document
from leadline.store.node_lock import node_name
from leadline.store.run_state import read_status
from leadline.store.terms import Term, latest_term
from leadline.store.upload_state import UploadState, read_upload, write_upload

_WATCH_SECONDS: Final = 10.0
"""A run whose objects do not change for so long has no job: a job uploads its samples every few seconds."""
_POLL_SECONDS: Final = 1.0


def restore_run(uri: str, spool: str) -> str:
    """Return the run directory of an uploaded run; it is made from the store if this machine has none.

    Args:
        uri: The URI of the run.
        spool: The runs directory in which it is made.
    Raises:
        RunNotFoundError: There is no run at the URI.
        RunExistsError: The spool has another run of that name, the run is running, or it is resumed elsewhere.
        StoreError: The store cannot be read or written.
        RunNotWritableError: The run directory cannot be written.
    """
    path, store = os.path.join(spool, uri.rpartition("/")[2]), ObjectStore(uri)
    if layout.is_run(path):
        _check_spool(path, uri, store)
        return path
    mirror = mirror_run(uri)
    fill_all(mirror)
    status = read_status(mirror)
    if status.status not in JOB_ENDED and _changes(store):
        raise RunExistsError(
            f"{uri} cannot be resumed: it is {status.status}; wait for its end, or stop it with: leadline stop {uri}"
        )
    term = latest_term(mirror)
    claim = Term(term.number + 1, node_name(), term.incarnation)
    try:
        store.put(layout.term(claim.number), encode(claim) + b"\n", create=True)
    except ObjectExistsError:
        raise RunExistsError(f"{uri} cannot be resumed: another machine resumes it at this moment") from None
    try:
        _copy(mirror, path, uri, claim)
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise RunNotWritableError(f"the run cannot be written at {path}: {error.strerror}") from None
    return path


def _check_spool(path: str, uri: str, store: ObjectStore) -> None:
    """Raise an error unless a run directory is the latest state of an uploaded run."""
    if read_upload(path).uri != uri:
        raise RunExistsError(f"another run exists at {path}; set LEADLINE_SPOOL to another folder")
    if read_upload(path).is_joint:
        return  # resume_joint brings it to the state of the store
    latest = max((stored.name for stored in store.folder(layout.TERMS)[1]), default="")
    if latest > layout.term(latest_term(path).number):
        raise RunExistsError(f"{uri} was resumed on another machine since; to resume it here, remove {path} first")


def _changes(store: ObjectStore) -> bool:
    """Return whether a job adds to a run in these seconds: the clocks of machines and stores may differ."""
    before, end = store.objects(), time.monotonic() + _WATCH_SECONDS
    while time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        if store.objects() != before:
            return True
    return False


def _copy(mirror: str, path: str, uri: str, claim: Term) -> None:
    """Make a run directory of a mirror, with the end of its job, which its agent may not have recorded."""
    make_folder(os.path.dirname(path))
    shutil.copytree(mirror, path, ignore=shutil.ignore_patterns(layout.MIRROR, layout.COMPACT))
    for folder in (*layout.FOLDERS, layout.TERMS):
        make_folder(os.path.join(path, folder))
    write_document(os.path.join(path, layout.term(claim.number)), claim)
    write_document(os.path.join(path, layout.STATUS), ended_document(path))
    write_upload(path, UploadState(uri))
