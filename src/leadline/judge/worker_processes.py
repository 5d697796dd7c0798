"""Processes in which rules are judged: of one run after the other, for as long as none brings its process down."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Hashable, Mapping
from typing import Any, Final

from leadline.errors import LeadlineError
from leadline.judge import json_pipe
from leadline.judge.worker_status import WorkerStatus

_QUIET: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
"""What keeps a worker's address space near what it uses, so that its bound means something."""
_MOST_KEPT_BYTES: Final = 1 << 30
"""A process that holds more than this when its run is done is not given another."""


class WorkersClosedError(LeadlineError):
    """The seats are closed: somebody ended the judging."""


class WorkerProcess:
    """One process and the ways to it.

    Attributes:
        slate: What it is at this moment.
    """

    def __init__(self) -> None:
        command_read, self._command = os.pipe()
        answer_read, answer_write = os.pipe()
        self.slate = WorkerStatus()
        passed = (command_read, answer_write, self.slate.descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leadline.judge.rule_worker", *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=passed,
                env=os.environ | _QUIET,
            )
        finally:
            os.close(command_read)
            os.close(answer_write)
        self._inbox = json_pipe.MessageReader(answer_read)

    @property
    def descriptor(self) -> int:
        """What becomes readable when it answers."""
        return self._inbox.descriptor

    @property
    def has_fallen(self) -> bool:
        """Whether it said its last."""
        return self._inbox.is_closed

    @property
    def held_bytes(self) -> int:
        """The memory that it holds; 0 once it is gone."""
        try:
            with open(f"/proc/{self._process.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Ask it.

        Raises:
            BrokenPipeError: It has fallen.
        """
        json_pipe.send(self._command, message)

    def receive(self) -> list[dict[str, Any]]:
        """Wait for bytes, and give the answers that are whole."""
        return self._inbox.receive()

    def wait(self) -> int:
        """How it ended, once it said its last."""
        return self._process.wait()

    def end(self) -> None:
        """End the process; the ways to it stay open until ``close``."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and close the ways to it."""
        self._process.kill()
        self._process.wait()
        os.close(self._command)
        os.close(self._inbox.descriptor)
        self.slate.close()


class WorkerProcesses:
    """Seats by the kind of rules that may sit there, kept from run to run; several threads may take from them.

    Args:
        is_kept: Whether a seat that is given back waits for the next run.
    """

    def __init__(self, *, is_kept: bool = False) -> None:
        self._is_kept, self._is_closed = is_kept, False
        self._idle: dict[Hashable, list[WorkerProcess]] = {}
        self._all: set[WorkerProcess] = set()

    def take(self, kind: Hashable) -> WorkerProcess:
        """A seat that waits, or a new one.

        Raises:
            SeatsClosedError: Nobody shall sit here any more.
        """
        idle = self._idle.setdefault(kind, [])
        seat = idle.pop() if idle else self._add()
        if self._is_closed:
            self.remove(seat)
            raise WorkersClosedError("judging was ended; judge again")
        return seat

    def give_back(self, kind: Hashable, seat: WorkerProcess) -> None:
        """Let a seat wait for the next run."""
        if not self._is_kept or self._is_closed or seat.held_bytes > _MOST_KEPT_BYTES:
            self.remove(seat)
        else:
            self._idle.setdefault(kind, []).append(seat)

    def remove(self, seat: WorkerProcess) -> None:
        """End a seat."""
        self._all.discard(seat)
        seat.close()

    def end(self) -> None:
        """End all processes at once, from any thread; who sits there sees it fall, and gets no other."""
        self._is_closed = True
        for seat in list(self._all):
            seat.end()

    def close(self) -> None:
        """End all, once nobody sits there any more."""
        self._is_closed = True
        for seat in list(self._all):
            self.remove(seat)
        self._idle.clear()

    def _add(self) -> WorkerProcess:
        seat = WorkerProcess()
        self._all.add(seat)
        return seat
