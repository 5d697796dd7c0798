"""Reader of the detailed profile windows of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

from leadline.reader.operator_times import OperatorTimes, read_operator_times
from leadline.store import layout
from leadline.store.documents import read_document


class DetailedWindows:
    """Finds completely written windows; each is read only once, even after ``reset``.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: str) -> None:
        self._folder = os.path.join(run, layout.PROFILES)
        self._read: dict[str, OperatorTimes | None] = {}
        """By folder; None for windows of other kinds."""
        self._returned: set[str] = set()

    def reset(self) -> None:
        """Return all windows again."""
        self._returned.clear()

    def read_new(self) -> Iterator[OperatorTimes]:
        """Yield the completely written windows that were not returned yet."""
        for worker in _names(self._folder):
            for name in _names(os.path.join(self._folder, worker)):
                folder = os.path.join(self._folder, worker, name)
                if folder not in self._returned and self._is_read(folder, worker):
                    self._returned.add(folder)
                    times = self._read[folder]
                    if times is not None:
                        yield times

    def _is_read(self, folder: str, worker: str) -> bool:
        """Read a window once it is completely written; return whether it has been read."""
        if folder not in self._read:
            document = read_document(os.path.join(folder, layout.WINDOW))
            if not isinstance(document, dict):
                return False
            is_detailed = document.get("kind") == "detailed"
            self._read[folder] = read_operator_times(folder, worker, document) if is_detailed else None
        return True


def _names(folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except FileNotFoundError:
        return []
