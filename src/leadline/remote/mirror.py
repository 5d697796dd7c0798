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
from leadline.remote.object_store import ObjectMissingError, ObjectStore, StoredObject, StoreError
from leadline.remote.objects import StoredFile, by_file, document_order, is_data, is_growing, is_uploaded
from leadline.store import layout
from leadline.store.cache import cache_folder
from leadline.store.documents import PRIVATE_FILE, encode, make_folder, read_document, replace_file, write_document

_MIRRORS: Final = "mirrors"
_CACHE_BYTES: Final = "LEADLINE_CACHE_BYTES"
_DEFAULT_CACHE_BYTES: Final = 10 << 30
_IN_USE_SECONDS: Final = 600.0
FRESH_SECONDS: Final = 1.0
_PARALLEL: Final = 16

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
    """Return the URI of which a folder is a mirror; "": it is none."""
    if not os.path.exists(os.path.join(run, layout.MIRROR)):
        return ""
    return _read_state(run).uri


def mirror_run(uri: str) -> str:
    """Fetch a run, and return its mirror.

    Raises:
        RunNotFoundError: There is no run at the URI.
        StoreError: The store cannot be read.
    """
    root, _, name = uri.rpartition("/")
    if root.endswith(":/"):
        raise RunNotFoundError(f"{uri} names a bucket and no run; leadline ls {uri} lists the runs in it")
    folder = os.path.join(root_folder(root), name)
    _refresh(folder, uri)
    _evict(folder)
    return folder


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
    state = _read_state(run)
    if state.uri and not state.tags:
        refresh(run)


def write_documents(folder: str, uri: str, documents: Mapping[str, object]) -> None:
    """Write documents into a mirror of which everything is fetched again when the run is opened."""
    with exclusive(folder):
        make_folder(folder)
        write_document(os.path.join(folder, layout.MIRROR), MirrorState(uri))
        for name, document in documents.items():
            path = safe_path(folder, name)
            make_folder(os.path.dirname(path))
            write_document(path, document)


def refresh(run: str) -> None:
    """Bring a run up to date if it is a mirror; a store that is away leaves it as it is.

    Why that failed is in ``last_error``.
    """
    if not os.path.exists(os.path.join(run, layout.MIRROR)):
        return
    state = _read_state(run)
    with _lock:
        if time.monotonic() - _refreshed.get(run, float("-inf")) < FRESH_SECONDS:
            return
    try:
        _refresh(run, state.uri)
    except LeadlineError as error:
        with _lock:
            _refreshed[run] = time.monotonic()
        if state.error != str(error):
            write_document(os.path.join(run, layout.MIRROR), replace(_read_state(run), error=str(error)))


def last_error(run: str) -> str:
    """Return why a mirror could not be brought up to date; "": it was, or it is none."""
    return _read_state(run).error if os.path.exists(os.path.join(run, layout.MIRROR)) else ""


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
            shutil.rmtree(folder, ignore_errors=True)
            raise RunNotFoundError(f"there is no run at {uri}; leadline ls {uri.rpartition('/')[0]} lists the runs")
        make_folder(folder)
        _Refresh(store, folder, objects).run(has_data=has_data)
    if has_data:
        with _lock:
            _refreshed[folder] = time.monotonic()


@contextmanager
def exclusive(folder: str) -> Iterator[None]:
    """Hold the lock of a mirror, which is outside of it."""
    make_folder(cache_folder(_MIRRORS))
    path = os.path.join(cache_folder(_MIRRORS), f"{hashlib.sha256(folder.encode()).hexdigest()[:16]}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Refresh:
    """One refresh of a mirror."""

    def __init__(self, store: ObjectStore, folder: str, objects: list[StoredObject]) -> None:
        self._store, self._folder, self._objects = store, folder, objects
        self._state = _read_state(folder)

    def run(self, *, has_data: bool) -> None:
        """Fetch the documents first and write them last, so that they never refer to data that is not here yet."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            changed = [stored for stored in self._objects if self._is_changed_document(stored)]
            contents = dict(zip((item.name for item in changed), pool.map(self._get, changed), strict=True))
            if has_data:
                if changed:
                    self._objects = self._store.objects()
                files = {name: stored for name, stored in by_file(self._objects).items() if is_data(name)}
                list(pool.map(self._fetch_data, files, files.values()))
        for name in sorted(contents, key=document_order):
            if (content := contents[name]) is not None:
                self._write(name, content)
        self._remove_deleted(has_data=has_data)
        tags = self._state.tags | {item.name: item.tag for item in changed if contents[item.name] is not None}
        state = MirrorState(self._store.uri, {name: tags[name] for name in tags if name in self._names()})
        if state != self._state:
            write_document(os.path.join(self._folder, layout.MIRROR), state)
        else:
            os.utime(os.path.join(self._folder, layout.MIRROR))

    def _names(self) -> set[str]:
        return {stored.name for stored in self._objects}

    def _is_changed_document(self, stored: StoredObject) -> bool:
        if is_data(stored.name) or not is_uploaded(stored.name):
            return False
        return self._state.tags.get(stored.name) != stored.tag or not os.path.exists(self._path(stored.name))

    def _get(self, stored: StoredObject) -> bytes | None:
        try:
            return self._store.get(stored.name)
        except ObjectMissingError:  # it was deleted since it was listed
            return None

    def _fetch_data(self, name: str, stored: StoredFile) -> None:
        try:
            present = os.path.getsize(self._path(name))
        except FileNotFoundError:
            present = -1
        wanted = stored.nbytes
        has_newer = is_growing(name) and present > wanted and (stored.whole is None or stored.chunks)
        if present == wanted or has_newer:  # while chunks become one object, a listing may miss some of both
            return
        try:
            if 0 <= present < wanted and is_growing(name):
                self._append(name, stored, present)
            else:
                self._write(name, b"".join(self._pieces(name, stored, 0)))
        except ObjectMissingError:  # its chunks have become one object since they were listed
            return

    def _append(self, name: str, stored: StoredFile, start: int) -> None:
        data = b"".join(self._pieces(name, stored, start))
        with open(self._path(name), "r+b") as file:
            file.seek(start)
            file.write(data)

    def _pieces(self, name: str, stored: StoredFile, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from an offset, from its object and then from its chunks."""
        at = start
        if at < stored.whole_bytes:
            yield self._store.get(name, at, stored.whole_bytes)
            at = stored.whole_bytes
        for offset in sorted(stored.chunks):
            piece = stored.chunks[offset]
            end = offset + piece.nbytes
            if offset <= at < end:
                yield self._store.get(piece.name, at - offset, piece.nbytes)
                at = end

    def _path(self, name: str) -> str:
        return safe_path(self._folder, name)

    def _write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        make_folder(os.path.dirname(path))
        with replace_file(path) as file:
            file.write(content)

    def _remove_deleted(self, *, has_data: bool) -> None:
        """Remove what was deleted in the store; files that were derived here remain."""
        names = self._names()
        gone = set(self._state.tags) - names
        if has_data:
            files = by_file(self._objects)
            for part in (layout.TENSORS, layout.SERIES, layout.TIMELINE, layout.SYSTEM):
                for folder, _, present in os.walk(os.path.join(self._folder, part)):
                    gone |= {
                        name
                        for file in present
                        if (name := os.path.relpath(os.path.join(folder, file), self._folder)) not in files
                    }
        for name in gone:
            if os.path.exists(path := self._path(name)):
                os.unlink(path)


def safe_path(folder: str, name: str) -> str:
    """Return the path of a file in a mirror.

    Raises:
        StoreError: The name leads out of the mirror.
    """
    path = os.path.normpath(os.path.join(folder, name))
    if not path.startswith(folder + os.sep):
        raise StoreError(f"the name of an object leads out of the run: {name!r}")
    return path


def _evict(keep: str) -> None:
    """Remove the mirrors that were not used for longest, until the cache is below its limit."""
    given = os.environ.get(_CACHE_BYTES, "")
    limit = int(given) if given.isdecimal() else _DEFAULT_CACHE_BYTES
    mirrors = []
    for folder, folders, names in os.walk(cache_folder(_MIRRORS)):
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
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # it was replaced meanwhile
                continue
    return total
