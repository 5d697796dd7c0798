"""Whether anything came to a run since one last looked, told by ``stat`` alone."""

from __future__ import annotations

import os
import time
from typing import Final

from leadline.store import layout

_GROWING: Final = (layout.SERIES, layout.TIMELINE, layout.SYSTEM, layout.TENSORS)
_SETTLED_NS: Final = 100_000_000


class RunWatch:
    """Notices new segments and growing ones; opens no file."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders: dict[str, tuple[int, list[str], list[str]]] = {}
        self._sizes: dict[str, int] = {}

    def has_changed(self) -> bool:
        """Whether a segment came or grew since the last call."""
        changed = False
        for part in _GROWING:
            changed = self._look(os.path.join(self._run, part)) or changed
        return changed

    def _look(self, folder: str) -> bool:
        folders, files = self._entries(folder)
        changed = False
        for each in folders:
            changed = self._look(each) or changed
        for each in files:
            size = _size(each)
            if size != self._sizes.get(each):
                self._sizes[each] = size
                changed = True
        return changed

    def _entries(self, folder: str) -> tuple[list[str], list[str]]:
        """Folders in a folder, and the Arrow segments, which alone can grow."""
        try:
            changed_ns = os.stat(folder).st_mtime_ns
        except FileNotFoundError:
            return [], []
        known = self._folders.get(folder)
        if known is not None and known[0] == changed_ns:
            return known[1], known[2]
        with os.scandir(folder) as entries:
            found = [(entry.path, entry.is_dir()) for entry in entries]
        folders = [path for path, is_folder in found if is_folder]
        files = [path for path, is_folder in found if not is_folder and not path.endswith(".part")]
        is_settled = time.time_ns() - changed_ns > _SETTLED_NS
        self._folders[folder] = (changed_ns if is_settled else -1, folders, files)
        return folders, files


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1
