"""The copy of the timeline that Horovod writes to the file named by ``HOROVOD_TIMELINE``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

from leadline.records.documents import WorkerDocument
from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, make_subfolder, write_document

VARIABLE: Final = "HOROVOD_TIMELINE"
_DYNAMIC: Final = "DYNAMIC"
"""The value with which the script itself starts a timeline later, in a file of its choice."""
MAX_BYTES: Final = 64 << 20
"""The size of all copies of one file; the file itself may grow further."""
_CHUNK_BYTES: Final = 1 << 20


class HorovodTimelines:
    """Copies the timelines of the processes of a node into the run while they grow.

    **No cost for the training** - the file and the environment are read from another process.

    **Only this run** - a file that was last written before the run started is not copied; Horovod overwrites it.

    Args:
        run: The run directory.
        node: The node whose processes are followed.
        started_ns: When the run started, in wall-clock time.
    """

    def __init__(self, run: str, node: str, started_ns: int, proc: str = "/proc") -> None:
        self._run = run
        self._node = node
        self._started_ns = started_ns
        self._proc = proc
        self._known_workers: set[str] = set()
        self._owners: dict[str, str] = {}
        """The worker whose timeline a file is, by the path of the file."""
        self._copies: dict[str, _TimelineCopy] = {}

    def poll(self, workers: Mapping[str, WorkerDocument]) -> list[str]:
        """Copy what was written; return a message for each file that is no longer copied."""
        for worker in sorted(set(workers) - self._known_workers):
            if workers[worker].node == self._node:
                self._find_timeline(worker, workers[worker].pid)
        return [line for path, owner in self._owners.items() for line in self._copy(path, owner)]

    def _find_timeline(self, worker: str, pid: Any) -> None:
        self._known_workers.add(worker)
        path, folder = self._read_variable(pid)
        if path and path != _DYNAMIC:
            self._owners.setdefault(os.path.realpath(os.path.join(folder, path)), worker)

    def _read_variable(self, pid: Any) -> tuple[str, str]:
        """Return the variable and the working directory of a process; of one that is gone, those of the agent."""
        try:
            with open(f"{self._proc}/{pid}/environ", "rb") as file:
                pairs = (entry.partition(b"=") for entry in file.read().split(b"\0"))
                environment = {name: value for name, _, value in pairs}
            return os.fsdecode(environment.get(VARIABLE.encode(), b"")), os.readlink(f"{self._proc}/{pid}/cwd")
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
            copy = self._copies[path] = _TimelineCopy(path, os.path.join(self._run, layout.horovod(owner)))
        try:
            return copy.follow(stat)
        except OSError as error:
            copy.is_closed = True
            return [f"no longer copying the Horovod timeline {path}: {error.strerror}"]


class _TimelineCopy:
    """The copies of one timeline file: a further one each time that Horovod starts the file again."""

    def __init__(self, path: str, folder: str) -> None:
        self.is_closed = False
        self._path, self._folder = path, folder
        self._inode = self._ordinal = 0
        self._copied_bytes = 0
        """Of the current file."""
        self._total_bytes = 0
        """Of all files."""

    def follow(self, stat: os.stat_result) -> list[str]:
        """Copy what was written.

        Returns:
            A message if the file is no longer copied.
        Raises:
            OSError: It could not be read or written.
        """
        if self.is_closed:
            return []
        if self._inode != stat.st_ino or stat.st_size < self._copied_bytes:
            self._start_copy(stat.st_ino)
        elif stat.st_size == self._copied_bytes:
            return []
        self._append(min(stat.st_size - self._copied_bytes, MAX_BYTES - self._total_bytes))
        self._write_clock(stat)
        if self._total_bytes < MAX_BYTES:
            return []
        self.is_closed = True
        return [f"no longer copying the Horovod timeline {self._path}: it exceeds {MAX_BYTES:,} bytes"]

    def _start_copy(self, inode: int) -> None:
        profiles = os.path.dirname(os.path.dirname(self._folder))
        for folder in (profiles, os.path.dirname(self._folder), self._folder):
            make_subfolder(folder)
        self._inode, self._copied_bytes = inode, 0
        self._ordinal += 1

    def _append(self, count: int) -> None:
        target = os.path.join(self._folder, layout.horovod_copy(self._ordinal))
        descriptor = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE
        )
        with open(self._path, "rb") as source, os.fdopen(descriptor, "wb") as copy:
            source.seek(self._copied_bytes)
            while count > 0 and (chunk := source.read(min(count, _CHUNK_BYTES))):
                copy.write(chunk)
                count -= len(chunk)
                self._copied_bytes += len(chunk)
                self._total_bytes += len(chunk)

    def _write_clock(self, stat: os.stat_result) -> None:
        """Write what the clock of the file can be aligned by: the time of boot, and when it had how many bytes."""
        document = {
            "path": self._path,
            "boot_ns": time.time_ns() - time.monotonic_ns(),
            "bytes": self._copied_bytes,
            "modified_ns": stat.st_mtime_ns,
        }
        write_document(os.path.join(self._folder, layout.horovod_clock(self._ordinal)), document)
