"""What of a run, or of a folder of runs, shows that something came: told by a few system calls."""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.reader import liveness
from leadline.records.names import JOB_ENDED
from leadline.store import layout

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
"""What a page can ask to be told of."""
_APPENDED: Final = (".jsonl", ".log")
_SETTLED_NS: Final = 100_000_000
_ENDED_A_LOOK: Final = 200
"""Of the runs that are over, so many are looked at again each time: one may have been resumed."""


@dataclass(slots=True)
class _Folder:
    """A folder as it was listed last."""

    changed_ns: int = -1
    folders: list[str] = field(default_factory=list)
    growing: list[str] = field(default_factory=list)
    """Files that may grow: of segments only the newest does."""


class ChangeStamp:
    """Looks at one run."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders: dict[str, _Folder] = {}

    def look(self) -> dict[str, Any]:
        """``status``, and ``parts``: for each a number that is another when the part has changed."""
        parts = {part: zlib.crc32(repr(self._seen(os.path.join(self._run, part))).encode()) for part in PARTS}
        parts["actions"] = stamp(os.path.join(self._run, layout.ACTIONS))[1]
        return {"status": liveness.effective_status(self._run), "parts": parts}

    def _seen(self, path: str) -> list[tuple[int, int]]:
        known = self._folders.setdefault(path, _Folder())
        found = stamp(path)
        if known.changed_ns != found[0]:
            _list(path, known, found[0])
        seen = [(found[0], 0), *map(stamp, known.growing)]
        for each in known.folders:
            seen += self._seen(each)
        return seen


def _list(path: str, known: _Folder, changed_ns: int) -> None:
    try:
        with os.scandir(path) as entries:
            found = sorted((entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        found = []
    known.folders = [each for each, is_folder in found if is_folder]
    segments = [each for each, is_folder in found if not is_folder and each.endswith(".arrow")]
    known.growing = [*segments[-1:], *(each for each, is_folder in found if not is_folder and each.endswith(_APPENDED))]
    # a second change within one tick of the file system's clock would look like none
    known.changed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1


def stamp(path: str) -> tuple[int, int]:
    """When it was changed, and how long it is; zeros where nothing is."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


class RootChangeStamp:
    """Looks at the runs below a folder: at those that are not over each time, at the others in turn."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[bool, tuple[object, ...]]] = {}
        self._turn = 0

    def look(self) -> dict[str, Any]:
        """``parts``: ``runs``, a number that is another when a run came, went, or goes on."""
        paths = self._paths()
        self._known = {path: known for path, known in self._known.items() if path in paths}
        ended = [path for path in paths if self._known.get(path, (False,))[0]]
        start = self._turn % max(1, len(ended))
        self._turn += _ENDED_A_LOOK
        again = set(ended[start : start + _ENDED_A_LOOK])
        for path in paths:
            if path in again or not self._known.get(path, (False,))[0]:
                self._known[path] = _glimpse(path)
        return {"status": "", "parts": {"runs": zlib.crc32(repr(sorted(self._known.items())).encode())}}

    def _paths(self) -> dict[str, None]:
        try:
            with os.scandir(self._root) as entries:
                paths = [each.path for each in entries]
        except OSError:
            return {}
        return dict.fromkeys(each for each in paths if each in self._known or layout.is_run(each))


def _glimpse(path: str) -> tuple[bool, tuple[object, ...]]:
    """Whether a run is over, and what of it is news in a list."""
    status = liveness.effective_status(path)
    news = (layout.STATUS, layout.WORKERS, layout.RULE_SUMMARY)
    return status in JOB_ENDED, (status, *(stamp(os.path.join(path, each)) for each in news))
