"""Whether anything came to a run since one last looked, told by ``stat`` alone."""

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
    """A folder as it was listed last."""

    changed_ns: int = -1
    """-1: it may have changed since without its clock saying so."""
    folders: list[str] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    """Arrow segments, which alone can grow."""
    files: int = 0
    """A hash of the names of all files: of those that are made whole only their coming is news."""


class RunWatch:
    """Notices new segments and growing ones; opens no file."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders: dict[str, _Folder] = {}
        self._sizes: dict[str, int] = {}

    def has_changed(self) -> bool:
        """Whether a segment came or grew since the last call."""
        changed = False
        for part in _GROWING:
            changed = self._look(os.path.join(self._run, part)) or changed
        return changed

    def _look(self, path: str) -> bool:
        known = self._folders.setdefault(path, _Folder())
        changed = self._list(path, known)
        for each in known.folders:
            changed = self._look(each) or changed
        for each in known.segments:
            size = _size(each)
            if size != self._sizes.get(each):
                self._sizes[each] = size
                changed = True
        return changed

    def _list(self, path: str, known: _Folder) -> bool:
        """Look again at what is in a folder, if that may have changed; whether a file came."""
        try:
            changed_ns = os.stat(path).st_mtime_ns
        except FileNotFoundError:
            return False
        if known.changed_ns == changed_ns:
            return False
        with os.scandir(path) as entries:
            found = [(entry.path, entry.is_dir()) for entry in entries]
        files = [each for each, is_folder in found if not is_folder and not each.endswith(".part")]
        known.folders = [each for each, is_folder in found if is_folder]
        known.segments = [each for each in files if each.endswith(".arrow")]
        known.changed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1
        before, known.files = known.files, hash(frozenset(files)) if files else 0
        return known.files != before


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1
