"""The runs that somebody looks at, opened once and kept up to date."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from leadline.analysis.digest import Digest
from leadline.dashboard.compactions import Compactions
from leadline.errors import RunNotFoundError
from leadline.reader.run import Run
from leadline.store import layout

_MOST_OPEN = 8
_FRESH_SECONDS = 0.5
_MOST_RAW_BYTES = 64 << 20
"""So much of a stream is read as it is; where there is more, the run is compacted first."""


@dataclass(slots=True)
class OpenedRun:
    """A run that is open, with what was read of it; one request at a time reads on."""

    run: Run
    digest: Digest
    lock: threading.RLock = field(default_factory=threading.RLock)
    read_at: float = field(default_factory=time.monotonic)

    def refresh(self) -> None:
        """Read on, unless that was done just now."""
        with self.lock:
            if time.monotonic() - self.read_at < _FRESH_SECONDS:
                return
            self.run.refresh()
            self.digest.refresh()
            self.read_at = time.monotonic()


@dataclass(slots=True)
class _Slot:
    """The place of a run: who comes while it is being opened waits for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: OpenedRun | None = None


class RunCache:
    """Opens the runs below a root, the last few of which stay open.

    Args:
        root: The folder below which runs stand. Nothing outside it is ever opened.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self._compactions = Compactions()

    def path(self, name: str) -> str:
        """Where a run of this name stands.

        Raises:
            RunNotFoundError: There is none.
        """
        path = os.path.join(self.root, name)
        is_name = bool(name) and "\0" not in name and os.path.basename(name) == name
        if not is_name or os.path.dirname(os.path.realpath(path)) != self.root or not layout.is_run(path):
            raise RunNotFoundError("there is no run of this name here")
        return path

    def file(self, name: str, *parts: str) -> str:
        """A file within a run; links that lead out of it are followed nowhere.

        Raises:
            RunNotFoundError: There is none.
        """
        run = os.path.realpath(self.path(name))
        path = os.path.realpath(os.path.join(run, *parts)) if not any("\0" in each for each in parts) else run
        if not path.startswith(run + os.sep) or not os.path.isfile(path):
            raise RunNotFoundError("there is no such file in this run")
        return path

    def open(self, name: str) -> OpenedRun:
        """A run, as it is now; while one is being opened, others are not waited with.

        Raises:
            RunNotFoundError: There is none.
            DamagedRunError: It cannot be read.
        """
        path = self.path(name)
        with self._lock:
            slot = self._slots.setdefault(path, _Slot())
            self._slots.move_to_end(path)
            while len(self._slots) > _MOST_OPEN:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.opened is None:
                run = Run(path)
                slot.opened = OpenedRun(run, Digest(run, _MOST_RAW_BYTES))
            found = slot.opened
        found.refresh()
        if found.digest.is_preparing:
            self._compactions.start(path)
        return found
