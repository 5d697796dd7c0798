"""Mirrors of all runs below the URI of an object store, as lists show them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from leadline.errors import LeadlineError
from leadline.records.decoding import Document
from leadline.remote.catalogue import (
    changes_since,
    entry_of,
    entry_tags,
    fetch_entries,
    is_run_name,
    publish,
    write_index,
)
from leadline.remote.mirror import (
    FRESH_SECONDS,
    fetch_documents,
    refresh,
    root_folder,
    set_aside,
    uri_of,
    write_documents,
)
from leadline.remote.object_store import ObjectStore
from leadline.store.documents import make_folder, read_document, write_document
from leadline.store.run_files import subfolders

_PARALLEL: Final = 16
_ROOT_PAUSE: Final = 4.0
"""The pause before a root is listed again, relative to how long that takes: thousands of runs take some requests."""
_LISTING: Final = ".listing.json"
"""In the folder of the mirrors of a root: what is known of its catalogue."""
_COMPLETE_SECONDS: Final = 600.0
"""How long changes are added to a complete listing, which alone notices runs that were deleted or copied."""
_CLOCK_NS: Final = 3_600_000_000_000
"""How far the clocks of the machines that write to a root may differ."""


@dataclass(frozen=True, slots=True)
class Listing(Document):
    """``.listing.json``: the last complete listing of a root, and the changes since then."""

    time_ns: int = 0
    """When it was complete, by the clock of this machine."""
    names: tuple[str, ...] = ()
    """The folders below the root, nearly all of them runs."""
    changes: dict[str, str] = field(default_factory=dict)
    """The runs of the changes that are part of it, by their names."""
    tags: dict[str, str] = field(default_factory=dict)
    """The tags of the entries by run."""
    ended: tuple[str, ...] = ()
    """The runs whose entry says that they have ended."""


def mirror_root(uri: str) -> str:
    """Fetch the documents of all runs below a URI that lists show, and return the folder of their mirrors.

    Raises:
        StoreError: The store cannot be read.
    """
    folder, root, now_ns = root_folder(uri), ObjectStore(uri), time.time_ns()
    make_folder(folder)
    known = Listing.from_dict(read_document(os.path.join(folder, _LISTING)))
    changes = changes_since(root, now_ns - _CLOCK_NS - round(_COMPLETE_SECONDS * 1e9))
    if 0 <= now_ns - known.time_ns < _COMPLETE_SECONDS * 1e9:
        new = {change: name for change, name in changes.items() if change not in known.changes}
        names = {*known.names, *new.values()}
        tags = known.tags | {name: change for change, name in new.items()}  # differ from those of their entries
        listing = replace(known, names=tuple(sorted(names)), changes=changes, tags=tags)
    else:
        with ThreadPoolExecutor(2) as pool:  # a listing is a sequence of requests, each of which waits for the store
            naming, tagging = pool.submit(_run_names, root), pool.submit(entry_tags, root)
            names, tags = naming.result(), tagging.result()
        tags = {name: tag for name, tag in tags.items() if name in names}
        listing = Listing(now_ns, tuple(sorted(names)), changes, tags)
    listed = _mirror_entries(root, folder, known, listing)
    _fetch_documents(folder, uri, [name for name in names if name not in listed])
    for name in subfolders(folder):
        if name not in names and is_run_name(name):
            set_aside(os.path.join(folder, name))
    return folder


def rebuild_catalogue(uri: str) -> int:
    """Read the documents of all runs below a URI, and rebuild the catalogue; return the number of its entries.

    Raises:
        StoreError: The store cannot be read or written.
    """
    folder, root = root_folder(uri), ObjectStore(uri)
    make_folder(folder)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _LISTING))  # the next list is a complete one
    names, tags = _run_names(root), entry_tags(root)
    _fetch_documents(folder, uri, names)
    entries = fetch_entries(root, {name: tag for name, tag in tags.items() if name in names})
    for name in names:
        entry = entry_of(os.path.join(folder, name))
        if entry != entries.get(name, {}):
            publish(root, name, entry)
    return write_index(root)


def _run_names(root: ObjectStore) -> set[str]:
    return {name for path in root.folder()[0] if is_run_name(name := path.rpartition("/")[2])}


def _fetch_documents(folder: str, uri: str, names: Iterable[str]) -> None:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for error in pool.map(lambda name: fetch_documents(os.path.join(folder, name), f"{uri}/{name}"), names):
            if error is not None:
                raise error


def _mirror_entries(root: ObjectStore, folder: str, known: Listing, listing: Listing) -> set[str]:
    """Bring the mirrors of the runs that the catalogue lists up to date, and return the names of those that have ended.

    Each has the documents of its entry, until the run is opened and fetched.
    """
    fetched = fetch_entries(root, {name: tag for name, tag in listing.tags.items() if known.tags.get(name) != tag})
    for name, entry in fetched.items():
        if entry:
            write_documents(os.path.join(folder, name), f"{root.uri}/{name}", entry)
    before = {name for name in known.ended if name in listing.tags and name not in fetched}
    ended = before | {name for name, entry in fetched.items() if entry}
    listing = replace(listing, ended=tuple(sorted(ended)))
    if listing != known:
        write_document(os.path.join(folder, _LISTING), listing)
    present = {entry.name for entry in os.scandir(folder)}
    return ended & present


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
