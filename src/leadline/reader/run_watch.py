"""Detection of new data in a run by ``stat`` calls only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Final

from leadline.store import layout

_GROWING: Final = (layout.SERIES, layout.TIMELINE, layout.SYSTEM, layout.TENSORS)
_SETTLED_NS: Final = 100_000_000


@dataclass(slots=True)
class _Folder:
    """The last listing of a folder."""

    changed_ns: int = -1
    """-1 if the folder may have changed without a new modification time."""
    folders: list[str] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    """Arrow segments, the only files that grow."""
    files: int = 0
    """A hash of the names of all files; files other than segments never grow."""


class RunWatch:
    """Detects new and growing segments without opening files."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders: dict[str, _Folder] = {}
        self._sizes: dict[str, int] = {}

    def has_changed(self) -> bool:
        """Return whether a segment was added or grew since the last call."""
        changed = False
        for part in _GROWING:
            changed = self._check(os.path.join(self._run, part)) or changed
        return changed

    def _check(self, path: str) -> bool:
        known = self._folders.setdefault(path, _Folder())
        changed = self._list(path, known)
        for folder in known.folders:
            changed = self._check(folder) or changed
        for segment in known.segments:
            size = _size(segment)
            if size != self._sizes.get(segment):
                self._sizes[segment] = size
                changed = True
        return changed

    def _list(self, path: str, known: _Folder) -> bool:
        """List a folder if it may have changed; return whether files were added."""
        try:
            changed_ns = os.stat(path).st_mtime_ns
        except FileNotFoundError:
            return False
        if known.changed_ns == changed_ns:
            return False
        with os.scandir(path) as entries:
            listed = [(entry.path, entry.is_dir()) for entry in entries]
        files = [entry_path for entry_path, is_folder in listed if not is_folder and not entry_path.endswith(".part")]
        known.folders = [entry_path for entry_path, is_folder in listed if is_folder]
        known.segments = [file for file in files if file.endswith(".arrow")]
        known.changed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1
        previous, known.files = known.files, hash(frozenset(files)) if files else 0
        return known.files != previous


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1
