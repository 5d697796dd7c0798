"""Local mirrors of runs in object stores: every reader reads a mirror as it reads any run directory.

A mirror is below ``$LEADLINE_CACHE/mirrors``. It is brought up to date by listing the objects of the run: what has
another tag or size is fetched, of growing files only the new bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from leadline.errors import ConfigurationError, LeadlineError, RunNotFoundError
from leadline.records.decoding import Document
from leadline.remote.fetching import FileFetcher, safe_path
from leadline.remote.object_store import ObjectStore, StoredObject, StoreError
from leadline.remote.objects import StoredFile, by_file, document_order, is_data, is_safe, is_uploaded
from leadline.remote.ranges import fetch_header, fetch_range, is_here, is_ranged
from leadline.store import layout
from leadline.store.cache import cache_folder
from leadline.store.documents import PRIVATE_FILE, encode, make_folder, read_document, write_document

_MIRRORS: Final = "mirrors"
_KEPT: Final = ".kept"
"""The folder, beside the mirrors of a root, of mirrors whose runs the store has no more."""
_CACHE_BYTES: Final = "LEADLINE_CACHE_BYTES"
_DEFAULT_CACHE_BYTES: Final = 10 << 30
_IN_USE_SECONDS: Final = 600.0
FRESH_SECONDS: Final = 1.0
_PARALLEL: Final = 16
_BLOCK_BYTES: Final = 512

_lock = threading.Lock()
_refreshed: dict[str, float] = {}
"""When this process last brought a mirror up to date."""


@dataclass(frozen=True, slots=True)
class MirrorState(Document):
    """``.mirror.json``: what a mirror consists of."""

    uri: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    """The tags of the objects that were fetched, by name."""
    error: str = ""
    """Why the last refresh failed."""


def root_folder(uri: str) -> str:
    """Return the folder of the mirrors of all runs directly below a URI."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    identity = hashlib.sha256(f"{endpoint} {uri}".encode()).hexdigest()[:12]
    return os.path.join(cache_folder(_MIRRORS), f"{uri.partition('://')[2].replace('/', '-')[:60]}-{identity}")


def uri_of(run: str) -> str:
    """Return the URI of which a folder is a mirror; "": it is none.

    Only folders of the cache are mirrors, in the places that their URIs have there: a copy of one is a run like any
    other, and what a run from elsewhere says about itself is not followed.
    """
    if not os.path.exists(os.path.join(run, layout.MIRROR)):
        return ""
    uri, (place, name) = _read_state(run).uri, os.path.split(os.path.realpath(run))
    root, _, name_in_store = uri.rpartition("/")
    is_in_place = name == name_in_store and place == os.path.realpath(root_folder(root))
    return uri if is_in_place else ""


def mirror_run(uri: str) -> str:
    """Fetch a run, and return its mirror.

    Raises:
        RunNotFoundError: There is no run at the URI.
        StoreError: The store cannot be read.
    """
    root, _, name = uri.rpartition("/")
    if root.endswith(":/"):
        raise RunNotFoundError(f"{uri} names a bucket and no run; leadline ls {uri} lists the runs in it")
    if not is_safe(name) or name.startswith("."):
        raise RunNotFoundError(f"{uri} names no run: {name!r} cannot be the name of one")
    folder = os.path.join(root_folder(root), name)
    try:
        _refresh(folder, uri)
    except RunNotFoundError as error:
        copy = set_aside(folder)
        if not copy:
            raise
        raise RunNotFoundError(f"{error}; what was fetched of it is kept at {copy}") from None
    _evict(folder)
    return folder


def set_aside(folder: str) -> str:
    """Move a mirror of which the store has no run any more out of the way, and return where it is.

    It may be the last copy, or the store another one than before, so that it is not removed; one that has the
    documents of lists only is. Where the run appears again, the mirror returns.

    Returns:
        The run directory, which is no mirror; "": there was nothing to keep.
    """
    with exclusive(folder):
        if not os.path.isdir(folder):
            kept = _kept(folder)
            return kept if layout.is_run(kept) else ""
        if not _read_state(folder).tags:
            shutil.rmtree(folder, ignore_errors=True)
            return ""
        kept = _kept(folder)
        make_folder(os.path.dirname(kept))
        shutil.rmtree(kept, ignore_errors=True)  # an earlier state of the same run
        os.rename(folder, kept)
    return kept


def _kept(folder: str) -> str:
    return os.path.join(os.path.dirname(folder), _KEPT, os.path.basename(folder))


def fill(path: str, start: int, end: int) -> None:
    """Fetch a range of a segment of raw tensors of which only the header was fetched; nothing if it is here.

    Args:
        path: The segment, in a mirror or in any run directory.
    Raises:
        StoreError: The store cannot be read.
    """
    if not os.path.exists(path + layout.HOLES) or is_here(path, start, end):
        return
    folder = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    if not (uri := uri_of(folder)):
        raise StoreError(f"{folder} is a copy of a mirror, into which it was not fetched; open the run at its URI")
    fetch_range(ObjectStore(uri), path, os.path.relpath(path, folder), start, end)


def fill_all(folder: str) -> None:
    """Fetch all raw tensors of a mirror.

    Raises:
        StoreError: The store cannot be read.
    """
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    segments = [path.removesuffix(layout.HOLES) for path in paths if path.endswith(layout.HOLES)]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(lambda path: fill(path, 0, os.path.getsize(path)), segments))
    for path in segments:
        os.unlink(path + layout.HOLES)


def fetch_documents(folder: str, uri: str) -> LeadlineError | None:
    """Bring the documents of a mirror up to date; return why that failed, None if it did not or there is no run."""
    try:
        _refresh(folder, uri, has_data=False)
    except RunNotFoundError:  # a folder that is no run
        return None
    except LeadlineError as error:
        return error
    return None


def complete(run: str) -> None:
    """Fetch a mirror of which only the documents of the catalogue are here; other runs are left alone.

    A store that is away leaves it as it is.
    """
    if uri_of(run) and not _read_state(run).tags:
        refresh(run)


def write_documents(folder: str, uri: str, documents: Mapping[str, object]) -> None:
    """Write documents into a mirror of which everything is fetched again when the run is opened."""
    with exclusive(folder):
        make_folder(folder)
        write_document(os.path.join(folder, layout.MIRROR), MirrorState(uri))
        for name, document in documents.items():
            if not is_safe(name) or not is_uploaded(name):  # nothing that an upload has written
                continue
            path = safe_path(folder, name)
            make_folder(os.path.dirname(path))
            write_document(path, document)


def refresh(run: str) -> None:
    """Bring a run up to date if it is a mirror; a store that is away leaves it as it is.

    Why that failed is in ``last_error``.
    """
    if not (uri := uri_of(run)):
        return
    with _lock:
        if time.monotonic() - _refreshed.get(run, float("-inf")) < FRESH_SECONDS:
            return
    try:
        _refresh(run, uri)
    except LeadlineError as error:
        with _lock:
            _refreshed[run] = time.monotonic()
        with exclusive(run):
            state = _read_state(run)
            if state.error != str(error) and os.path.isdir(run):
                write_document(os.path.join(run, layout.MIRROR), replace(state, error=str(error)))


def last_error(run: str) -> str:
    """Return why a mirror could not be brought up to date; "": it was, or it is none."""
    return _read_state(run).error if uri_of(run) else ""


def send(run: str, name: str, document: object) -> None:
    """Write a document of a mirrored run into its store; nothing if the run is no mirror.

    Raises:
        StoreError: It could not be written.
    """
    if uri := uri_of(run):
        ObjectStore(uri).put(name, encode(document) + b"\n")


def refuse_mirror(run: str, what: str) -> None:
    """Raise an error if a run is a mirror, of which the original would remain.

    Raises:
        ConfigurationError: It is one.
    """
    if uri := uri_of(run):
        raise ConfigurationError(f"{uri}: {what} works on local runs only; use the tools of the store")


def _read_state(run: str) -> MirrorState:
    return MirrorState.from_dict(read_document(os.path.join(run, layout.MIRROR)))


def _refresh(folder: str, uri: str, *, has_data: bool = True) -> None:
    """Bring a mirror up to date, one process at a time.

    Args:
        has_data: Whether to fetch all, and not only documents.
    """
    store = ObjectStore(uri)
    with exclusive(folder):
        objects = store.objects()
        if not any(stored.name == layout.MANIFEST for stored in objects):
            raise RunNotFoundError(f"there is no run at {uri}; leadline ls {uri.rpartition('/')[0]} lists the runs")
        if not os.path.isdir(folder) and layout.is_run(kept := _kept(folder)):
            make_folder(os.path.dirname(folder))
            os.rename(kept, folder)
        make_folder(folder)
        try:
            _Refresh(store, folder, objects).run(has_data=has_data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise StoreError(
                f"{uri}: {os.path.relpath(error.filename or folder, folder)} is both a file and a folder in the store"
            ) from None
    if has_data:
        with _lock:
            _refreshed[folder] = time.monotonic()


@contextmanager
def exclusive(folder: str) -> Iterator[None]:
    """Hold the lock of a mirror, which is outside of it."""
    make_folder(cache_folder(_MIRRORS))
    path = os.path.join(cache_folder(_MIRRORS), f"{hashlib.sha256(folder.encode()).hexdigest()[:16]}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Refresh:
    """One refresh of a mirror."""

    def __init__(self, store: ObjectStore, folder: str, objects: list[StoredObject]) -> None:
        self._store, self._folder = store, folder
        self._objects = _files_of_runs(objects)
        self._left_out = next((stored.name for stored in objects if not is_safe(stored.name)), "")
        self._files, self._state = FileFetcher(store, folder), _read_state(folder)

    def run(self, *, has_data: bool) -> None:
        """Fetch the documents first and write them last, so that they never refer to data that is not here yet."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            changed = [stored for stored in self._objects if self._is_changed_document(stored)]
            contents = dict(zip((item.name for item in changed), pool.map(self._files.content, changed), strict=True))
            if has_data:
                if changed:
                    self._objects = _files_of_runs(self._store.objects())
                files = {name: stored for name, stored in by_file(self._objects).items() if is_data(name)}
                list(pool.map(self._fetch, files, files.values()))
        for name in sorted(contents, key=document_order):
            if (content := contents[name]) is not None:
                self._files.write(name, content)
        self._remove_deleted(has_data=has_data)
        tags = self._state.tags | {item.name: item.tag for item in changed if contents[item.name] is not None}
        error = f"{self._left_out!r} was left out: it is no name of a file in a run" if self._left_out else ""
        state = MirrorState(self._store.uri, {name: tags[name] for name in tags if name in self._names()}, error)
        if state != self._state:
            write_document(os.path.join(self._folder, layout.MIRROR), state)
        else:
            os.utime(os.path.join(self._folder, layout.MIRROR))

    def _fetch(self, name: str, stored: StoredFile) -> None:
        if is_ranged(name, stored):
            fetch_header(self._store, self._files, name, stored)
        else:
            self._files.fetch(name, stored)

    def _names(self) -> set[str]:
        return {stored.name for stored in self._objects}

    def _is_changed_document(self, stored: StoredObject) -> bool:
        if is_data(stored.name) or not is_uploaded(stored.name):
            return False
        return self._state.tags.get(stored.name) != stored.tag or not os.path.exists(self._files.path(stored.name))

    def _remove_deleted(self, *, has_data: bool) -> None:
        """Remove what was deleted in the store; files that were derived here remain."""
        names = self._names()
        gone = set(self._state.tags) - names
        if has_data:
            files = by_file(self._objects)
            for part in (layout.TENSORS, layout.SERIES, layout.TIMELINE, layout.SYSTEM):
                for folder, _, present in os.walk(os.path.join(self._folder, part)):
                    names_here = (os.path.relpath(os.path.join(folder, file), self._folder) for file in present)
                    gone |= {name for name in names_here if name.removesuffix(layout.HOLES) not in files}
        for name in gone:
            if os.path.exists(path := self._files.path(name)):
                os.unlink(path)


def _files_of_runs(objects: list[StoredObject]) -> list[StoredObject]:
    """Return the objects that can be files which an upload has written."""
    return [stored for stored in objects if is_safe(stored.name) and is_uploaded(stored.name)]


def _evict(keep: str) -> None:
    """Remove the mirrors that were not used for longest, until the cache is below its limit."""
    given = os.environ.get(_CACHE_BYTES, "")
    limit = int(given) if given.isdecimal() else _DEFAULT_CACHE_BYTES
    mirrors = []
    for folder, folders, names in os.walk(cache_folder(_MIRRORS)):
        folders[:] = [name for name in folders if name != _KEPT]
        if layout.MIRROR in names:
            folders.clear()
            used_at = os.path.getmtime(os.path.join(folder, layout.MIRROR))
            mirrors.append((used_at, folder, _bytes_below(folder)))
    total = sum(nbytes for _, _, nbytes in mirrors)
    for used_at, folder, nbytes in sorted(mirrors):
        if total <= limit:
            return
        if folder != keep and time.time() - used_at > _IN_USE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
            total -= nbytes


def _bytes_below(folder: str) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * _BLOCK_BYTES  # without holes
            except FileNotFoundError:  # it was replaced meanwhile
                continue
    return total
