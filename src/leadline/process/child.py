"""A supervised child process: JSON lines over pipes, a deadline, and a guaranteed end."""

from __future__ import annotations

import fcntl
import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from leadline.process.messages import INBOX, OUTBOX, MessageReader
from leadline.records.json_object import JsonObject
from leadline.store.documents import encode

_ABOVE: Final = 64
"""Descriptors are moved above this one before the child gets them under its own numbers."""
_STANDARD: Final = range(3)
_POLL_SECONDS: Final = 0.01
_IGNORED_BY_PYTHON: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Python ignores these in its own processes; a program expects the default."""
_TAIL_BYTES: Final = 1 << 16
_MAX_ERROR_CHARACTERS: Final = 300


class Child:
    """One child process.

    **Never waits** - every method returns at once, except ``wait``, ``wait_for``, ``receive`` and ``close``.

    **Leaves nothing** - ``close`` kills the process, reaps it, and closes its pipes.

    **Any thread** - ``kill`` may be called while another thread waits.

    Args:
        command: The program, which is searched for in PATH, and its arguments.
        environment: Its environment; None: that of this process.
        streams: The descriptors of this process that it inherits, by their numbers in the child. Standard streams that
            are not among them are empty.
        has_messages: Whether it exchanges JSON lines with this process.
        keeps_errors: Whether its standard error is kept for ``error_line``.
        has_own_session: Whether it gets its own session, without the terminal.
        mask: The signals that it blocks; None: those that this thread blocks.

    Attributes:
        pid: Its pid, and the id of its session if that is its own.
        code: Its exit status, -n for signal n; None: it was not reaped yet.
        deadline: When it is overdue, on a monotonic clock of the caller.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        streams: Mapping[int, int] | None = None,
        has_messages: bool = False,
        keeps_errors: bool = False,
        has_own_session: bool = False,
        mask: Iterable[int] | None = None,
    ) -> None:
        self.code: int | None = None
        self.deadline = math.inf
        self._lock = threading.Lock()
        self._errors: IO[bytes] | None = None
        self._inbox: MessageReader | None = None
        self._outbox = -1
        self._outgoing = b""
        given, ends = dict(streams or {}), list[int]()
        try:
            if keeps_errors:
                self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe would have to be read continuously
                given[2] = self._errors.fileno()
            if has_messages:
                given[INBOX], self._outbox = os.pipe()
                ends.append(given[INBOX])
                answers, given[OUTBOX] = os.pipe()
                ends.append(given[OUTBOX])
                self._inbox = MessageReader(answers)
                os.set_blocking(self._outbox, False)
            self.pid = _spawn(command, environment, given, mask, has_own_session=has_own_session)
        except OSError:
            self._close_pipes()
            raise
        finally:
            for descriptor in ends:
                os.close(descriptor)

    @property
    def descriptor(self) -> int:
        """The descriptor that becomes readable when it answers, or closes its end of the pipe."""
        assert self._inbox is not None
        return self._inbox.descriptor

    @property
    def has_hung_up(self) -> bool:
        """Whether it closed its end of the pipe, as it does when it exits."""
        return self._inbox is not None and self._inbox.is_closed

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; what does not fit into the pipe is kept for ``flush``."""
        self._outgoing += encode(message) + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write what did not fit into the pipe before."""
        while self._outgoing:
            try:
                self._outgoing = self._outgoing[os.write(self._outbox, self._outgoing) :]
            except (BlockingIOError, BrokenPipeError):  # the pipe is full, or the end of the child is noticed later
                return

    def hang_up(self) -> None:
        """Tell it that no more messages follow."""
        if self._outbox >= 0:
            os.close(self._outbox)
            self._outbox, self._outgoing = -1, b""

    def receive(self) -> list[JsonObject]:
        """Wait for data, and return the complete answers."""
        assert self._inbox is not None
        return self._inbox.receive()

    def is_overdue(self, now: float) -> bool:
        """Return whether its deadline has passed."""
        return now >= self.deadline

    def poll(self) -> int | None:
        """Return its exit status, -n for signal n; None while it runs."""
        with self._lock:
            if self.code is None:
                self._reap()
            return self.code

    def wait(self) -> int:
        """Wait for its end, and return its exit status."""
        while (code := self.poll()) is None:
            with suppress(ChildProcessError):  # another thread has reaped it
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return code

    def wait_for(self, seconds: float) -> int | None:
        """Wait for its end for at most so long, and return its exit status; None: it still runs."""
        until = time.monotonic() + seconds
        while (code := self.poll()) is None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        with self._lock:
            if self.code is None:
                os.kill(self.pid, number)  # our child: its pid is not reused before it is reaped

    def kill(self) -> None:
        """Kill it; its pipes stay open until ``close``."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill it if it runs, wait for its end, and close its pipes."""
        self.kill()
        self.wait()
        self._close_pipes()

    @property
    def error_line(self) -> str:
        """The last line of its standard error."""
        assert self._errors is not None
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("leadline: ")[:_MAX_ERROR_CHARACTERS] if lines else "unknown error"

    @property
    def memory_bytes(self) -> int:
        """The memory that it uses; 0 once it is gone."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def _reap(self) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # this process ignores SIGCHLD, so that the status is lost
            self.code = 0
        else:
            self.code = os.waitstatus_to_exitcode(status) if pid else None

    def _close_pipes(self) -> None:
        self.hang_up()
        if self._inbox is not None:
            self._inbox.close()
        if self._errors is not None:
            self._errors.close()


def describe_exit(code: int) -> str:
    """Return how a process ended: ``exited with status 1``, ``was killed by SIGKILL``."""
    return f"exited with status {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


def _spawn(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    streams: Mapping[int, int],
    mask: Iterable[int] | None,
    *,
    has_own_session: bool,
) -> int:
    """Start a program with default signal dispositions, and return its pid.

    Raises:
        OSError: It cannot be started.
    """
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in _STANDARD if number not in streams
    ]
    moved = {
        number: fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
        for number, descriptor in streams.items()
        if number != descriptor or number not in _STANDARD
    }
    try:
        return os.posix_spawnp(
            command[0],
            list(command),
            os.environ if environment is None else environment,
            file_actions=actions + [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in moved.items()],
            setsigmask=signal.pthread_sigmask(signal.SIG_BLOCK, ()) if mask is None else mask,
            setsigdef=_IGNORED_BY_PYTHON,
            setsid=has_own_session,
        )
    finally:
        for descriptor in moved.values():
            os.close(descriptor)
