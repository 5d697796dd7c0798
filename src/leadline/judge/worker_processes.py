"""The processes of rule workers, reused from run to run until a rule crashes one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Hashable, Mapping
from typing import Any, Final

from leadline.errors import LeadlineError
from leadline.judge import json_pipe
from leadline.judge.worker_status import WorkerStatus

_ENVIRONMENT: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
"""Settings that keep the address space of a worker near what it uses, so that its limit is meaningful."""
_MAX_KEPT_BYTES: Final = 1 << 30
"""A process that uses more memory than this after a run is not reused."""


class WorkersClosedError(LeadlineError):
    """The pool is closed: the evaluation was ended."""


class WorkerProcess:
    """One process and its pipes.

    Attributes:
        status: What the worker is doing at this moment.
    """

    def __init__(self) -> None:
        command_read, self._command = os.pipe()
        answer_read, answer_write = os.pipe()
        self.status = WorkerStatus()
        passed = (command_read, answer_write, self.status.descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leadline.judge.rule_worker", *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=passed,
                env=os.environ | _ENVIRONMENT,
            )
        finally:
            os.close(command_read)
            os.close(answer_write)
        self._inbox = json_pipe.MessageReader(answer_read)

    @property
    def descriptor(self) -> int:
        """The descriptor that becomes readable when the worker answers."""
        return self._inbox.descriptor

    @property
    def has_exited(self) -> bool:
        """Whether the process closed its end of the pipe."""
        return self._inbox.is_closed

    @property
    def held_bytes(self) -> int:
        """The memory that the process uses; 0 once it is gone."""
        try:
            with open(f"/proc/{self._process.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message.

        Raises:
            BrokenPipeError: The process has exited.
        """
        json_pipe.send(self._command, message)

    def receive(self) -> list[dict[str, Any]]:
        """Wait for data, and return the complete answers."""
        return self._inbox.receive()

    def wait(self) -> int:
        """Wait for the process to exit, and return its status."""
        return self._process.wait()

    def end(self) -> None:
        """Kill the process; its pipes stay open until ``close``."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, and close its pipes."""
        self._process.kill()
        self._process.wait()
        os.close(self._command)
        os.close(self._inbox.descriptor)
        self.status.close()


class WorkerProcesses:
    """A pool of processes by kind of rules, reused from run to run; safe to use from several threads.

    Args:
        is_kept: Whether a process that is returned waits for the next run.
    """

    def __init__(self, *, is_kept: bool = False) -> None:
        self._is_kept, self._is_closed = is_kept, False
        self._idle: dict[Hashable, list[WorkerProcess]] = {}
        self._all: set[WorkerProcess] = set()

    def take(self, kind: Hashable) -> WorkerProcess:
        """Return an idle process, or a new one.

        Raises:
            WorkersClosedError: The pool is closed.
        """
        idle = self._idle.setdefault(kind, [])
        worker = idle.pop() if idle else self._add()
        if self._is_closed:
            self.remove(worker)
            raise WorkersClosedError("the evaluation was ended; judge again")
        return worker

    def give_back(self, kind: Hashable, worker: WorkerProcess) -> None:
        """Return a process to the pool."""
        if not self._is_kept or self._is_closed or worker.held_bytes > _MAX_KEPT_BYTES:
            self.remove(worker)
        else:
            self._idle.setdefault(kind, []).append(worker)

    def remove(self, worker: WorkerProcess) -> None:
        """Kill a process."""
        self._all.discard(worker)
        worker.close()

    def end(self) -> None:
        """Kill all processes at once, from any thread; their users see them exit, and get no others."""
        self._is_closed = True
        for worker in list(self._all):
            worker.end()

    def close(self) -> None:
        """Kill all processes, once none is in use any more."""
        self._is_closed = True
        for worker in list(self._all):
            self.remove(worker)
        self._idle.clear()

    def _add(self) -> WorkerProcess:
        worker = WorkerProcess()
        self._all.add(worker)
        return worker
