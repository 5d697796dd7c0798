"""Entries of folders, and detection of their changes by modification times."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from leadline.store.layout import PACK, SEGMENTS

CLOCK_TICK_NS: Final = 200_000_000
"""An upper bound of a tick of a file system's clock."""
_GROWING: Final = (*SEGMENTS, ".jsonl", ".log", PACK)
_TEMPORARY: Final = ".part"


def names_in(folder: str) -> list[str]:
    """Return the sorted names of the entries of a folder; none if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


class FolderWatch:
    """Tells whether entries of a folder may have been added, replaced or removed.

    Modification times are only as fine as a tick of the file system's clock: a folder that changed within the last
    tick may change again without a new time, so it counts as changed until its time is older than a tick.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.changed_ns = 0
        """The modification time at the last call; 0 if the folder did not exist."""
        self._settled_ns: int | None = None

    def has_changed(self) -> bool:
        """Return whether the folder may have changed since the last call; call it before reading the folder."""
        now_ns = time.time_ns()
        try:
            self.changed_ns = os.stat(self.path).st_mtime_ns
        except OSError:
            self.changed_ns = 0
        if self.changed_ns == self._settled_ns:
            return False
        self._settled_ns = self.changed_ns if now_ns - self.changed_ns > CLOCK_TICK_NS else None
        return True

    def may_have_changed(self) -> bool:
        """Return what ``has_changed`` would return, without counting as a call of it."""
        try:
            return os.stat(self.path).st_mtime_ns != self._settled_ns
        except OSError:
            return self._settled_ns != 0

    def new_entries(self) -> list[os.DirEntry[str]] | None:
        """Return the entries ordered by name if they may have changed since the last call, otherwise None."""
        if not self.has_changed():
            return None
        try:
            with os.scandir(self.path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            self.forget()
            raise

    def forget(self) -> None:
        """Let the folder count as changed at the next call, since it could not be read."""
        self._settled_ns = None


class FolderState(NamedTuple):
    """State of one folder, without its subfolders; compares unequal after a change."""

    changed_ns: int
    """The modification time; it also changes with temporary files."""
    files: int
    """A checksum of the names and inodes of the files, without temporary files; 0 if there are none."""
    sizes: tuple[int, ...]
    """The sizes of the files that grow."""


class FolderTree:
    """Detects changes in a folder and its subfolders without opening files; unchanged folders are not listed again."""

    def __init__(self, path: str) -> None:
        self._watch = FolderWatch(path)
        self._folders: dict[str, FolderTree] = {}
        self._growing: list[str] = []
        self._files = 0

    def states(self) -> Iterator[FolderState]:
        """Yield the state of the folder and of each folder below."""
        entries = self._watch.new_entries()
        if entries is not None:
            self._list(entries)
        yield FolderState(self._watch.changed_ns, self._files, tuple(map(_size, self._growing)))
        for folder in self._folders.values():
            yield from folder.states()

    def _list(self, entries: list[os.DirEntry[str]]) -> None:
        folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        self._folders = {path: self._folders.get(path) or FolderTree(path) for path in folders}
        files = [entry for entry in entries if entry.path not in self._folders and not entry.name.endswith(_TEMPORARY)]
        self._growing = [entry.path for entry in files if entry.name.endswith(_GROWING)]
        names = [(entry.name, entry.inode()) for entry in files]
        self._files = zlib.crc32(repr(names).encode()) if names else 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
