"""Upload of a run directory, round by round: what was added since the last round, and nothing twice."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leadline.remote.object_store import ObjectStore
from leadline.remote.objects import DATA, StoredFile, by_file, chunk, document_order, is_data, is_growing, is_uploaded
from leadline.store import layout
from leadline.store.disk_limit import Removed, RunFile, trim
from leadline.store.documents import replace_file
from leadline.store.run_files import open_regular, read_at_most

_MAX_CHUNKS: Final = 100
_MIN_WHOLE_BYTES: Final = 1 << 20
"""A growing file becomes one object each time that its chunks are as large as the object, and at least this large."""

Fingerprint = tuple[int, int, int]
"""Size, modification time and inode of a file."""
_File = tuple[str, Fingerprint]


@dataclass(slots=True)
class _Uploaded:
    """What is in the store of one file."""

    fingerprint: Fingerprint | None
    """Of the local file when it was uploaded; None: not known."""
    whole_bytes: int = 0
    end: int = 0
    """The number of bytes in the store."""
    chunks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """What waits for its upload."""

    files: int = 0
    nbytes: int = 0


class Uploader:
    """Uploads a run directory and fetches the control requests that were written to the store.

    **Documents never precede data** - the documents of a round are read first and written last, so that a reader of
    the store sees a state that the run directory had.

    **Idempotent** - after a failed round, or in another process, it continues where the store is.

    Args:
        is_own: Returns whether a file is uploaded from this run directory; None: all are, and the requests of others
            are fetched.

    Attributes:
        uploaded_bytes: What was uploaded so far.
    """

    def __init__(self, run: str, store: ObjectStore, is_own: Callable[[str], bool] | None = None) -> None:
        self.uploaded_bytes = 0
        self._run, self._store = run, store
        self._is_own, self._has_exchange = is_own or (lambda name: True), is_own is not None
        self._uploaded: dict[str, _Uploaded] | None = None
        self._requests: set[str] = set()

    def pending(self) -> PendingUpload:
        """Return how much is not in the store yet."""
        known, files, nbytes = self._uploaded or {}, 0, 0
        for name, fingerprint in self._changed(known, [*self._documents(), *self._data()]):
            done = known[name].end if name in known and is_growing(name) else 0
            files, nbytes = files + 1, nbytes + max(0, fingerprint[0] - done)
        return PendingUpload(files, nbytes)

    def forget_documents(self) -> None:
        """Let the next round upload all documents again."""
        for name, stored in (self._uploaded or {}).items():
            if not is_data(name):
                stored.fingerprint = None

    def trim(self, max_bytes: int, max_waiting_bytes: int) -> Removed:
        """Remove raw tensors from the run directory until it is not larger than a bound; see ``disk_limit.trim``."""
        found = dict((*self._documents(), *self._data(is_own=False)))
        files = [RunFile(name, size, modified_ns) for name, (size, modified_ns, _) in found.items()]
        known = self._uploaded or {}

        def is_stored(name: str) -> bool:
            return not self._is_own(name) or (name in known and known[name].fingerprint == found[name])

        return trim(self._run, files, max_bytes, is_stored, max_waiting_bytes)

    def sync(self, *, is_final: bool = False) -> None:
        """Upload what is new, and fetch new control requests.

        Args:
            is_final: Whether nothing is written any more: every file becomes one object.
        Raises:
            StoreError: The store failed; what was uploaded before is kept in mind.
            OSError: A file of the run cannot be read or written.
        """
        if self._uploaded is None:
            self._uploaded = {name: _known(name, stored) for name, stored in by_file(self._store.objects()).items()}
        known = self._uploaded
        documents = {
            name: (fingerprint, content)
            for name, fingerprint in self._changed(known, self._documents())
            if (content := self._document(name)) is not None
        }
        data = list(self._data())
        last_segments = _last_segments(name for name, _ in data)
        for name, fingerprint in self._changed(known, data):
            is_sealed = is_final or (is_growing(name) and name not in last_segments)
            self._upload_data(known, name, fingerprint, is_sealed=is_sealed)
        if is_final:
            for name, fingerprint in data:
                if name in known and known[name].chunks:
                    self._put_whole(known, name, fingerprint)
        for name in sorted(documents, key=document_order):
            fingerprint, content = documents[name]
            self._store.put(name, content)
            self.uploaded_bytes += len(content)
            known[name] = _Uploaded(fingerprint)
        if not is_final and not self._has_exchange:
            self._fetch_requests(known)

    def _changed(self, known: dict[str, _Uploaded], files: Iterable[_File]) -> Iterator[_File]:
        """Yield the files that differ from what was uploaded."""
        for name, fingerprint in files:
            stored = known.get(name)
            if stored is not None and stored.fingerprint is None and is_data(name) and stored.end == fingerprint[0]:
                stored.fingerprint = fingerprint  # data is never changed in place: equal sizes mean equal files
            if stored is None or stored.fingerprint != fingerprint:
                yield name, fingerprint

    def _documents(self) -> Iterator[_File]:
        return filter(lambda file: self._is_own(file[0]), self._files("", skipped=(*DATA, layout.COMPACT)))

    def _data(self, *, is_own: bool = True) -> Iterator[_File]:
        """Yield the files of captured data, those of other nodes as well if not ``is_own``."""
        for part in DATA:
            yield from (file for file in self._files(part) if not is_own or self._is_own(file[0]))

    def _files(self, part: str, skipped: Container[str] = ()) -> Iterator[_File]:
        """Yield the files below a folder of the run that belong into the store, without folders to be skipped."""
        for folder, folders, names in os.walk(os.path.join(self._run, part)):
            folders[:] = [name for name in folders if name not in skipped]
            for file in sorted(names):
                path = os.path.join(folder, file)
                name = os.path.relpath(path, self._run)
                if not is_uploaded(name):
                    continue
                try:
                    state = os.lstat(path)
                except FileNotFoundError:  # it was replaced or removed meanwhile
                    continue
                if stat.S_ISREG(state.st_mode):  # nothing that a link leads to leaves the machine
                    yield name, (state.st_size, state.st_mtime_ns, state.st_ino)

    def _document(self, name: str) -> bytes | None:
        """Return a document; None: it was removed, or is being rewritten in place at this moment."""
        try:
            with open_regular(os.path.join(self._run, name)) as file:
                content = file.read()
            if name.endswith(".json"):
                json.loads(content)
        except (FileNotFoundError, ValueError):
            return None
        if name.endswith(".jsonl"):
            return content[: content.rfind(b"\n") + 1]
        return content

    def _upload_data(
        self, known: dict[str, _Uploaded], name: str, fingerprint: Fingerprint, *, is_sealed: bool
    ) -> None:
        stored = known.get(name) or _Uploaded(None)
        length = fingerprint[0]
        grows = is_growing(name) and not is_sealed and stored.end <= length
        growth_bytes = length - stored.whole_bytes
        if not grows or len(stored.chunks) >= _MAX_CHUNKS or growth_bytes > max(_MIN_WHOLE_BYTES, stored.whole_bytes):
            self._put_whole(known, name, fingerprint)
            return
        content = self._bytes(name, stored.end, length)
        if not content:
            return
        chunk_name = chunk(name, stored.end)
        self._store.put(chunk_name, content)
        self.uploaded_bytes += len(content)
        known[name] = _Uploaded(
            fingerprint, stored.whole_bytes, stored.end + len(content), (*stored.chunks, chunk_name)
        )

    def _put_whole(self, known: dict[str, _Uploaded], name: str, fingerprint: Fingerprint) -> None:
        """Make a file one object, and remove its chunks."""
        stored = known.get(name) or _Uploaded(None)
        path = Path(self._run, name)
        try:
            content = self._bytes(name, 0, fingerprint[0]) if is_growing(name) else path
            self._store.put(name, content)
        except FileNotFoundError:  # it was removed meanwhile
            return
        nbytes = fingerprint[0] if isinstance(content, Path) else len(content)
        self.uploaded_bytes += nbytes
        known[name] = _Uploaded(fingerprint, nbytes, nbytes, stored.chunks)
        self._store.delete(stored.chunks)
        known[name].chunks = ()

    def _bytes(self, name: str, offset: int, end: int) -> bytes:
        try:
            with open_regular(os.path.join(self._run, name)) as file:
                file.seek(offset)
                return read_at_most(file, end - offset)
        except FileNotFoundError:
            return b""

    def _fetch_requests(self, known: dict[str, _Uploaded]) -> None:
        """Write the requests that others have put into the store to the run directory, where the job reads them."""
        for listed in self._store.folder(layout.CONTROL)[1]:
            name = listed.name
            if name in self._requests or name in known or not name.endswith(".json"):
                continue
            path = os.path.join(self._run, name)
            if not os.path.exists(path):
                content = self._store.get(name)
                with replace_file(path) as file:
                    file.write(content)
                state = os.lstat(path)
                known[name] = _Uploaded((state.st_size, state.st_mtime_ns, state.st_ino))
            self._requests.add(name)


def _known(name: str, stored: StoredFile) -> _Uploaded:
    chunks = tuple(item.name for item in stored.chunks.values())
    return _Uploaded(None, stored.whole_bytes, stored.nbytes, chunks)


def _last_segments(names: Iterable[str]) -> set[str]:
    """Return the last segment of each stream, which may still grow."""
    last: dict[str, str] = {}
    for name in filter(is_growing, names):
        folder = name.rpartition("/")[0]
        last[folder] = max(last.get(folder, ""), name)
    return set(last.values())
