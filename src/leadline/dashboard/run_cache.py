"""Cache of open runs."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from leadline.analysis.digest import Digest
from leadline.errors import RunNotFoundError, closest
from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.reader.run import Run
from leadline.remote import mirror
from leadline.store import layout
from leadline.store.run_files import refuse_links

_MAX_OPEN = 8
_FRESH_SECONDS = 0.5
_MAX_RAW_BYTES = 64 << 20
"""Larger streams are compacted before they are read."""
_MAX_ATTEMPTS: Final = 2
_MAX_NAME: Final = 80
"""The longest name that a message repeats."""


@dataclass(slots=True)
class OpenedRun:
    """An open run with its digest; one request at a time refreshes it."""

    run: Run
    digest: Digest
    lock: threading.RLock = field(default_factory=threading.RLock)
    read_at: float = field(default_factory=time.monotonic)

    def refresh(self) -> None:
        """Read new data, unless that was done a moment ago."""
        with self.lock:
            if time.monotonic() - self.read_at < _FRESH_SECONDS:
                return
            self.run.refresh()
            self.digest.refresh()
            self.read_at = time.monotonic()


@dataclass(slots=True)
class _Slot:
    """Entry of a run: concurrent requests wait while it is being opened."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: OpenedRun | None = None


class RunCache:
    """Opens runs of a runs directory and keeps the most recently used ones open.

    Args:
        root: Runs directory. Nothing outside it is ever opened.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._checked: set[str] = set()
        """The run directories in which no folder is a link."""
        self._lock = threading.Lock()
        self._compactions = Compactions()

    def path(self, name: str) -> str:
        """Return the run directory of a run name.

        Raises:
            RunNotFoundError: The run does not exist.
        """
        path = os.path.join(self.root, name)
        is_name = bool(name) and "\0" not in name and os.path.basename(name) == name
        if not is_name or os.path.dirname(os.path.realpath(path)) != self.root or not layout.is_run(path):
            nearest = self.nearest(name)
            hint = f"; did you mean {nearest!r}?" if nearest else ""
            raise RunNotFoundError(f"there is no run named {name[:_MAX_NAME]!r} in this runs directory{hint}")
        if path not in self._checked:
            refuse_links(path)
            self._checked.add(path)
        mirror.complete(path)
        return path

    def close(self, name: str) -> None:
        """Forget a run that was deleted."""
        with self._lock:
            self._slots.pop(os.path.join(self.root, name), None)

    def nearest(self, name: str) -> str | None:
        """Return the run with the most similar other name; None if no name is similar."""
        try:
            names = [known for known in os.listdir(self.root) if layout.is_run(os.path.join(self.root, known))]
        except OSError:
            return None
        return closest(name[:_MAX_NAME], [known for known in names if known != name])

    def file(self, name: str, *parts: str) -> str:
        """Return the path of a file within a run; links that lead outside are refused.

        Raises:
            RunNotFoundError: The file does not exist.
        """
        run = os.path.realpath(self.path(name))
        path = os.path.realpath(os.path.join(run, *parts)) if not any("\0" in part for part in parts) else run
        if not path.startswith(run + os.sep) or not os.path.isfile(path):
            raise RunNotFoundError("no such file in this run")
        return path

    def open(self, name: str) -> OpenedRun:
        """Open a run, or refresh it if it is open; opening one run does not block requests for others.

        Raises:
            RunNotFoundError: The run does not exist.
            DamagedRunError: It cannot be read.
        """
        path = self.path(name)
        with self._lock:
            slot = self._slots.setdefault(path, _Slot())
            self._slots.move_to_end(path)
            while len(self._slots) > _MAX_OPEN:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.opened is None:
                run = Run(path)
                slot.opened = OpenedRun(run, Digest(run, _MAX_RAW_BYTES))
            opened = slot.opened
        opened.refresh()
        if opened.digest.is_preparing:
            self._compactions.start(path)
        return opened


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
                command = own_command("leadline.compaction", path)
                self._running[path] = Child(command, own_environment(), has_own_session=True)

    def wait(self) -> None:
        """Wait for all running compactions."""
        for child in list(self._running.values()):
            child.wait()
