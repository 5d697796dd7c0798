"""Detection of new data in a run without opening files."""

from __future__ import annotations

import os
from typing import Final

from leadline.store import layout
from leadline.store.folder_watch import FolderTree

_PARTS: Final = (layout.SERIES, layout.TIMELINE, layout.SYSTEM, layout.TENSORS)


class RunWatch:
    """Detects new and growing segments."""

    def __init__(self, run: str) -> None:
        self._folders = [FolderTree(os.path.join(run, part)) for part in _PARTS]
        self._states: list[tuple[int, tuple[int, ...]]] = []

    def has_changed(self) -> bool:
        """Return whether a segment was added or grew since the last call."""
        states = [state for folder in self._folders for state in folder.states()]
        before, self._states = self._states, [(state.files, state.sizes) for state in states if state.files]
        return self._states != before
