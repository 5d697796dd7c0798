"""The documents of workers, read when they change."""

from __future__ import annotations

import os

from leadline.records.documents import WorkerDocument
from leadline.store import layout
from leadline.store.documents import read_with_retries
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import document_paths

FileStamp = tuple[int, int, int]


class WatchedFile:
    """A file whose changes are detected by ``stat``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: FileStamp | None = None

    def has_changed(self) -> bool:
        """Return whether the file exists and differs from the last call."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return False
        stamp = stat.st_mtime_ns, stat.st_ino, stat.st_size
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        return True

    def read_change(self) -> object | None:
        """Return the document in the file if it has changed; None: it has not, or cannot be read now."""
        try:
            return read_with_retries(self.path) if self.has_changed() else None
        except OSError:
            return None


class Workers:
    """The latest documents of the workers of a run; in a resumed run, of those that this job has begun."""

    def __init__(self, run: str) -> None:
        self._incarnation = read_incarnations(run).number
        self.documents: dict[str, WorkerDocument] = {}
        self._run = run
        self._files: dict[str, WatchedFile] = {}

    def poll(self) -> list[str]:
        """Read the documents that changed, and return the names of their workers."""
        for worker, path in document_paths(self._run, layout.WORKERS).items():
            if worker not in self._files:
                self._files[worker] = WatchedFile(path)
        changes = {worker: file.read_change() for worker, file in self._files.items()}
        changed = {worker: WorkerDocument.from_dict(change) for worker, change in changes.items() if change is not None}
        if self._incarnation:
            changed = {worker: document for worker, document in changed.items() if self._is_current(document)}
        self.documents |= changed
        return list(changed)

    def _is_current(self, document: WorkerDocument) -> bool:
        return bool(document.starts) and document.starts[-1].number >= self._incarnation
