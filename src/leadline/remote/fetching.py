"""Fetching the files of a run from a store: documents as a whole, of growing files only the new bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from leadline.remote.object_store import ObjectMissingError, ObjectStore, StoredObject, StoreError
from leadline.remote.objects import StoredFile, is_growing
from leadline.store.documents import make_folder, replace_file
from leadline.store.run_files import path_below


class FileFetcher:
    """Writes files of a store to a folder.

    Args:
        store: The objects of a run.
        folder: The run directory, or a mirror.
    """

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, folder

    def content(self, stored: StoredObject) -> bytes | None:
        """Return an object; None: it was deleted since it was listed."""
        try:
            return self._store.get(stored.name)
        except ObjectMissingError:
            return None

    def fetch(self, name: str, stored: StoredFile) -> None:
        """Fetch a file of captured data, or what was added to it."""
        try:
            present = os.path.getsize(self.path(name))
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
                self.write(name, b"".join(self._pieces(name, stored, 0)))
        except ObjectMissingError:  # its chunks have become one object since they were listed
            return

    def write(self, name: str, content: bytes) -> None:
        """Replace a file."""
        path = self.path(name)
        make_folder(os.path.dirname(path))
        with replace_file(path) as file:
            file.write(content)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return safe_path(self._folder, name)

    def _append(self, name: str, stored: StoredFile, start: int) -> None:
        data = b"".join(self._pieces(name, stored, start))
        with open(self.path(name), "r+b") as file:
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


def stored_document(store: ObjectStore, name: str) -> object:
    """Return a decoded document of a run; None: there is none, or it is damaged.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        return json.loads(store.get(name))
    except (ObjectMissingError, ValueError):
        return None


def safe_path(folder: str, name: str) -> str:
    """Return the path of a file in a folder.

    Raises:
        StoreError: The name leads out of the folder.
    """
    path = path_below(folder, name)
    if path is None:
        raise StoreError(f"the name of an object leads out of the run: {name!r}")
    return path
