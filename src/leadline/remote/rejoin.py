"""The run directory of a node that continues a run which its nodes resume together, through an object store."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final

from leadline.errors import LeadlineError, RunNotWritableError
from leadline.remote.exchange import participant
from leadline.remote.fetching import FileFetcher
from leadline.remote.object_store import ObjectStore
from leadline.remote.objects import by_file, is_data, is_uploaded
from leadline.remote.uploader import Uploader
from leadline.store import layout
from leadline.store.documents import make_folder, read_document, write_document
from leadline.store.terms import withdraw_term
from leadline.store.upload_state import UploadState, read_upload, write_upload

_PARALLEL: Final = 16


def upload_rest(run: str, store: ObjectStore, node: str) -> None:
    """Upload what the last upload of a node's run directory has not, as after its machine was lost.

    Raises:
        StoreError: The store cannot be used.
        OSError: The run directory cannot be read.
    """
    own = {f"{layout.NODES}/{node}", *(f"{layout.WORKERS}/{name}" for name in own_workers(run))}
    Uploader(run, store, lambda name: participant(name) in own).sync(is_final=True)


def own_workers(run: str) -> set[str]:
    """Return the workers whose files were written in this run directory; none if it does not exist."""
    others = set(read_document(os.path.join(run, layout.OTHERS)) or ())
    names: set[str] = set()
    for part in (layout.SERIES, layout.TIMELINE, layout.TENSORS):
        with suppress(FileNotFoundError):
            names |= set(os.listdir(os.path.join(run, part)))
    return {name for name in names if f"{layout.WORKERS}/{name}" not in others}


def fetch_run(run: str, store: ObjectStore, state: UploadState, *, has_raw: bool) -> None:
    """Bring a node's run directory to the state of the store, but for its incarnations, before a job begins.

    What this node has written itself stays as it is here, as not all of it may be in the store. From then on all
    workers are those of other nodes: a worker is this node's when one of its processes continues it.

    Args:
        run: The run directory; if it does not exist, it is made.
        has_raw: Whether to fetch raw tensors of other nodes, too.
    Raises:
        StoreError: The store cannot be read.
        RunNotWritableError: The run directory cannot be written.
    """
    is_new = not os.path.exists(run)
    kept = {f"{layout.WORKERS}/{name}" for name in own_workers(run)}
    own_node = f"{layout.NODES}/{state.node}"
    listed = store.objects()
    others = {owner for stored in listed if (owner := participant(stored.name)) is not None} - {own_node}
    documents = [stored for stored in listed if _is_document(stored.name) and participant(stored.name) not in kept]
    documents = [stored for stored in documents if participant(stored.name) != own_node]
    kept |= set() if is_new else {own_node}
    data = {name: file for name, file in by_file(listed).items() if is_data(name) and participant(name) not in kept}
    data = {name: file for name, file in data.items() if has_raw or not name.startswith(f"{layout.TENSORS}/")}
    known = replace(read_upload(run), is_complete=False, error="") if not is_new else state
    files = FileFetcher(store, run)
    try:
        for folder in (*layout.FOLDERS, layout.TERMS):
            make_folder(os.path.join(run, folder))
        write_upload(run, known)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            contents = list(pool.map(files.content, documents))
            list(pool.map(files.fetch, data, data.values()))
        for stored, content in zip(documents, contents, strict=True):
            if content is not None:
                files.write(stored.name, content)
        withdraw_term(run)
        write_document(os.path.join(run, layout.OTHERS), sorted(others))
    except OSError as error:
        if isinstance(error, LeadlineError):
            raise
        raise RunNotWritableError(f"the run cannot be written at {run}: {error.strerror}") from None


def _is_document(name: str) -> bool:
    return not is_data(name) and name != layout.INCARNATIONS and (name.endswith(".alive") or is_uploaded(name))
