"""Change stamps of a run or runs directory, computed with a few system calls."""

from __future__ import annotations

import os
import zlib
from typing import Any, Final

from leadline.reader import liveness
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.folder_watch import FolderTree

PARTS: Final = (
    layout.SERIES,
    layout.TIMELINE,
    layout.SYSTEM,
    layout.TENSORS,
    layout.RULES,
    layout.CONTROL,
    layout.PROFILES,
    "reports",
    layout.WORKERS,
)
"""Parts of a run whose changes pages can subscribe to."""
_ENDED_RUNS_PER_READ: Final = 200
"""Number of ended runs that are checked again at each read: one may have been resumed."""


class ChangeStamp:
    """Change stamp of one run."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders = {part: FolderTree(os.path.join(run, part)) for part in PARTS}

    def read(self) -> dict[str, Any]:
        """Return ``status``, and ``parts``: a number for each part that differs when the part has changed."""
        parts = {part: zlib.crc32(repr(list(folder.states())).encode()) for part, folder in self._folders.items()}
        parts["actions"] = stamp(os.path.join(self._run, layout.ACTIONS))[1]
        return {"status": liveness.effective_status(self._run), "parts": parts}


def stamp(path: str) -> tuple[int, int]:
    """Return the modification time and size of a file; zeros if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


class RootChangeStamp:
    """Change stamp of a runs directory: reads active runs each time and ended runs in rotation."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._stamps_by_path: dict[str, tuple[bool, tuple[object, ...]]] = {}
        self._offset = 0

    def read(self) -> dict[str, Any]:
        """Return ``parts``: for ``runs`` a number that differs when a run was added, removed or has progressed."""
        paths = self._paths()
        self._stamps_by_path = {path: entry for path, entry in self._stamps_by_path.items() if path in paths}
        ended = [path for path in paths if self._stamps_by_path.get(path, (False,))[0]]
        start = self._offset % max(1, len(ended))
        self._offset += _ENDED_RUNS_PER_READ
        again = set(ended[start : start + _ENDED_RUNS_PER_READ])
        for path in paths:
            if path in again or not self._stamps_by_path.get(path, (False,))[0]:
                self._stamps_by_path[path] = _run_stamp(path)
        return {"status": "", "parts": {"runs": zlib.crc32(repr(sorted(self._stamps_by_path.items())).encode())}}

    def _paths(self) -> dict[str, None]:
        try:
            with os.scandir(self._root) as entries:
                paths = [entry.path for entry in entries]
        except OSError:
            return {}
        return dict.fromkeys(path for path in paths if path in self._stamps_by_path or layout.is_run(path))


def _run_stamp(path: str) -> tuple[bool, tuple[object, ...]]:
    """Return whether a run has ended, and the stamp of what a run list shows of it."""
    status = liveness.effective_status(path)
    documents = (layout.STATUS, layout.WORKERS, layout.RULE_SUMMARY)
    return status in JOB_ENDED, (status, *(stamp(os.path.join(path, name)) for name in documents))
