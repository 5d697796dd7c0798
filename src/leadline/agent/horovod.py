"""Following the timeline that Horovod writes where ``HOROVOD_TIMELINE`` names a file: the run gets a growing copy."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, make_leaf, write_document

VARIABLE: Final = "HOROVOD_TIMELINE"
_DYNAMIC: Final = "DYNAMIC"
"""Says that the script itself begins a timeline later, at a place that only it knows."""
MOST_BYTES: Final = 64 << 20
"""Of the copies of one file; the file itself goes on."""
_PIECE_BYTES: Final = 1 << 20


class HorovodTimelines:
    """The timelines of the processes of a node.

    **The training pays nothing**: the file and the environment are read from outside.

    **What was there before** the run started is not copied: Horovod begins the file anew.

    Args:
        run: The run folder.
        node: The node whose processes are meant.
        started_ns: When the run started, by the wall clock.
    """

    def __init__(self, run: str, node: str, started_ns: int, proc: str = "/proc") -> None:
        self._run, self._node, self._started_ns, self._proc = run, node, started_ns, proc
        self._asked: set[str] = set()
        self._owners: dict[str, str] = {}
        """The worker that a file is told of, by the file's path."""
        self._copies: dict[str, _Copy] = {}

    def poll(self, workers: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Copy what came; a line for each file of which no more can be copied."""
        for worker in sorted(set(workers) - self._asked):
            if workers[worker].get("node") == self._node:
                self._ask(worker, workers[worker].get("pid"))
        return [line for path, owner in self._owners.items() for line in self._copy(path, owner)]

    def _ask(self, worker: str, pid: Any) -> None:
        self._asked.add(worker)
        named, folder = self._environment(pid)
        if named and named != _DYNAMIC:
            self._owners.setdefault(os.path.realpath(os.path.join(folder, named)), worker)

    def _environment(self, pid: Any) -> tuple[str, str]:
        """What the variable says in a process, and its folder; of one that is gone, what it says here."""
        try:
            with open(f"{self._proc}/{pid}/environ", "rb") as file:
                pairs = (each.partition(b"=") for each in file.read().split(b"\0"))
                found = {name: value for name, _, value in pairs}
            return os.fsdecode(found.get(VARIABLE.encode(), b"")), os.readlink(f"{self._proc}/{pid}/cwd")
        except OSError:
            return os.environ.get(VARIABLE, ""), os.getcwd()

    def _copy(self, path: str, owner: str) -> list[str]:
        try:
            stat = os.stat(path)
        except OSError:
            return []
        if stat.st_size == 0 or stat.st_mtime_ns < self._started_ns:
            return []
        copy = self._copies.get(path)
        if copy is None:
            copy = self._copies[path] = _Copy(path, os.path.join(self._run, layout.horovod(owner)))
        try:
            return copy.follow(stat)
        except OSError as error:
            copy.is_over = True
            return [f"Horovod's timeline {path} is followed no more: {error.strerror}"]


class _Copy:
    """One file, and what was copied of it."""

    def __init__(self, path: str, folder: str) -> None:
        self.is_over = False
        self._path, self._folder = path, folder
        self._inode = self._ordinal = self._done = self._all = 0

    def follow(self, stat: os.stat_result) -> list[str]:
        """Copy what came.

        Raises:
            OSError: It could not be read or written.
        """
        if self.is_over:
            return []
        if self._inode != stat.st_ino or stat.st_size < self._done:
            self._begin(stat.st_ino)
        elif stat.st_size == self._done:
            return []
        self._append(min(stat.st_size - self._done, MOST_BYTES - self._all))
        self._tell_clock(stat)
        if self._all < MOST_BYTES:
            return []
        self.is_over = True
        return [f"Horovod's timeline {self._path} is followed no more: it has more than {MOST_BYTES:,} bytes"]

    def _begin(self, inode: int) -> None:
        """It is a new file: another copy."""
        profiles = os.path.dirname(os.path.dirname(self._folder))
        for each in (profiles, os.path.dirname(self._folder), self._folder):
            make_leaf(each)
        self._inode, self._done = inode, 0
        self._ordinal += 1

    def _append(self, count: int) -> None:
        target = os.path.join(self._folder, layout.horovod_copy(self._ordinal))
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
        with open(self._path, "rb") as source, os.fdopen(descriptor, "wb") as copy:
            source.seek(self._done)
            while count > 0 and (piece := source.read(min(count, _PIECE_BYTES))):
                copy.write(piece)
                count -= len(piece)
                self._done += len(piece)
                self._all += len(piece)

    def _tell_clock(self, stat: os.stat_result) -> None:
        """What the file's clock can be compared with: the boot's, or the time at which it had so many bytes."""
        document = {
            "path": self._path,
            "boot_ns": time.time_ns() - time.monotonic_ns(),
            "bytes": self._done,
            "modified_ns": stat.st_mtime_ns,
        }
        write_document(os.path.join(self._folder, layout.horovod_clock(self._ordinal)), document)
