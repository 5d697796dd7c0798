"""Background compaction of large runs in separate processes."""

from __future__ import annotations

import sys
import threading
from typing import Final

from leadline.process.child import Child

_MAX_ATTEMPTS: Final = 2


class Compactions:
    """Compactions started by the server; they outlive it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Child] = {}
        self._attempts: dict[str, int] = {}

    def start(self, path: str) -> None:
        """Start to compact a run, unless that is in progress or has failed repeatedly."""
        with self._lock:
            running = self._running.get(path)
            if running is not None and running.poll() is None:
                return
            if running is not None and running.code == 0:
                self._attempts[path] = 0
            self._attempts[path] = self._attempts.get(path, 0) + 1
            if self._attempts[path] <= _MAX_ATTEMPTS:
                command = [sys.executable, "-m", "leadline.compaction", path]
                self._running[path] = Child(command, has_own_session=True)

    def wait(self) -> None:
        """Wait for all running compactions."""
        for child in list(self._running.values()):
            child.wait()
