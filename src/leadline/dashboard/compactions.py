"""Compacting large runs that nobody compacted yet, each by a process of its own that the server does not wait for."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Final

_MOST_TRIES: Final = 2


class Compactions:
    """Those that the server has started; they end with their work, also when the server does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._tries: dict[str, int] = {}

    def start(self, path: str) -> None:
        """Have a run compacted, unless that is under way or has failed before."""
        with self._lock:
            running = self._running.get(path)
            if running is not None and running.poll() is None:
                return
            if running is not None and running.returncode == 0:
                self._tries[path] = 0
            self._tries[path] = self._tries.get(path, 0) + 1
            if self._tries[path] <= _MOST_TRIES:
                command = [sys.executable, "-m", "leadline.compaction", path]
                self._running[path] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def wait(self) -> None:
        """Wait for those that run."""
        for each in list(self._running.values()):
            each.wait()
