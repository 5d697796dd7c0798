"""Mirrors of all runs below the URI of an object store, as lists show them."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from leadline.errors import LeadlineError
from leadline.remote.catalogue import entry_of, entry_tags, fetch_entries, publish, write_index
from leadline.remote.mirror import FRESH_SECONDS, fetch_documents, refresh, root_folder, uri_of, write_documents
from leadline.remote.object_store import ObjectStore
from leadline.store import layout
from leadline.store.documents import make_folder, read_document, write_document

_PARALLEL: Final = 16
_ROOT_PAUSE: Final = 4.0
"""The pause before a root is listed again, relative to how long that takes: thousands of runs take some requests."""
_TAGS: Final = ".entries.json"
"""In the folder of the mirrors of a root: of each run in its catalogue the tag of the entry, and whether it is over."""


def mirror_root(uri: str) -> str:
    """Fetch the documents of all runs below a URI that lists show, and return the folder of their mirrors.

    Raises:
        StoreError: The store cannot be read.
    """
    folder, root = root_folder(uri), ObjectStore(uri)
    with ThreadPoolExecutor(2) as pool:  # a listing is a sequence of requests, each of which waits for the store
        listing, tagging = pool.submit(_run_names, root), pool.submit(entry_tags, root)
        names, tags = listing.result(), tagging.result()
    make_folder(folder)
    listed = _mirror_entries(root, folder, {name: tag for name, tag in tags.items() if name in names})
    _fetch_documents(folder, uri, [name for name in names if name not in listed])
    for known in os.listdir(folder):
        if known not in names and known != _TAGS:
            shutil.rmtree(os.path.join(folder, known))
    return folder


def rebuild_catalogue(uri: str) -> int:
    """Read the documents of all runs below a URI, and rebuild the catalogue; return the number of its entries.

    Raises:
        StoreError: The store cannot be read or written.
    """
    folder, root = root_folder(uri), ObjectStore(uri)
    make_folder(folder)
    names, tags = _run_names(root), entry_tags(root)
    _fetch_documents(folder, uri, names)
    entries = fetch_entries(root, {name: tag for name, tag in tags.items() if name in names})
    for name in names:
        entry = entry_of(os.path.join(folder, name))
        if entry != entries.get(name, {}):
            publish(root, name, entry)
    return write_index(root)


def _run_names(root: ObjectStore) -> set[str]:
    return {name for path in root.folder()[0] if not (name := path.rpartition("/")[2]).startswith(".")}


def _fetch_documents(folder: str, uri: str, names: Iterable[str]) -> None:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for error in pool.map(lambda name: fetch_documents(os.path.join(folder, name), f"{uri}/{name}"), names):
            if error is not None:
                raise error


def _mirror_entries(root: ObjectStore, folder: str, tags: Mapping[str, str]) -> set[str]:
    """Bring the mirrors of the runs that the catalogue lists up to date, and return their names.

    Each has the documents of its entry, until the run is opened and fetched.

    Args:
        tags: The tags of the entries by run.
    """
    path = os.path.join(folder, _TAGS)
    known = read_document(path) or {}
    changed = {name: tag for name, tag in tags.items() if known.get(name, [""])[0] != tag}
    fetched = fetch_entries(root, changed)
    for name, entry in fetched.items():
        if entry:
            write_documents(os.path.join(folder, name), f"{root.uri}/{name}", entry)
    listed = {name: [tags[name], bool(fetched[name] if name in fetched else known[name][1])] for name in tags}
    if listed != known:
        write_document(path, listed)
    return {name for name, (_, is_over) in listed.items() if is_over and layout.is_run(os.path.join(folder, name))}


@contextmanager
def kept_fresh(runs: Iterable[str], root: str = "") -> Iterator[None]:
    """Keep mirrors up to date in the background; other runs are left alone.

    Args:
        root: The URI of a store whose runs are all kept up to date, with their documents.
    """
    mirrors, should_end = [run for run in runs if uri_of(run)], threading.Event()
    if not mirrors and not root:
        yield
        return

    def keep() -> None:
        root_at = 0.0
        while not should_end.wait(FRESH_SECONDS):
            for run in mirrors:
                refresh(run)
            began = time.monotonic()
            if root and began >= root_at:
                _refresh_root(root)
                root_at = time.monotonic() + _ROOT_PAUSE * (time.monotonic() - began)

    thread = threading.Thread(target=keep, name="leadline-mirror", daemon=True)
    thread.start()
    try:
        yield
    finally:
        should_end.set()
        thread.join()


def _refresh_root(uri: str) -> None:
    try:
        mirror_root(uri)
    except LeadlineError:  # the pages show what was fetched before; each opened run tells its own error
        return
