"""The detailed windows of a run, each told of once it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator

from leadline.reader.operator_times import OperatorTimes, read_operator_times
from leadline.store import layout
from leadline.store.documents import read_document


class DeepWindows:
    """Looks for windows; each is read once, however often all are asked for again.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: str) -> None:
        self._folder = os.path.join(run, layout.PROFILES)
        self._read: dict[str, OperatorTimes | None] = {}
        """By folder; None: of another kind."""
        self._given: set[str] = set()

    def begin(self) -> None:
        """Tell of all again."""
        self._given.clear()

    def new(self) -> Iterator[OperatorTimes]:
        """Those that are whole and were not told of yet."""
        for worker in _names(self._folder):
            for name in _names(os.path.join(self._folder, worker)):
                folder = os.path.join(self._folder, worker, name)
                if folder not in self._given and self._is_read(folder, worker):
                    self._given.add(folder)
                    found = self._read[folder]
                    if found is not None:
                        yield found

    def _is_read(self, folder: str, worker: str) -> bool:
        """Whether it is whole, and then it has been read."""
        if folder not in self._read:
            document = read_document(os.path.join(folder, layout.WINDOW))
            if not isinstance(document, dict):
                return False
            is_detailed = document.get("kind") == "detailed"
            self._read[folder] = read_operator_times(folder, worker, document) if is_detailed else None
        return True


def _names(folder: str) -> list[str]:
    try:
        return sorted(each.name for each in os.scandir(folder) if each.is_dir())
    except FileNotFoundError:
        return []
