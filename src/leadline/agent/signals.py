"""Signals and child processes of the agent: waiting for signals, forwarding them, and starting programs."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from leadline.monitor.processes import Identity, identify
from leadline.process.child import Child

TO_PASS_ON: Final = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGALRM,
        signal.SIGVTALRM,
        signal.SIGPROF,
        signal.SIGXCPU,
        signal.SIGURG,
        signal.SIGPWR,
        *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
    }
)
"""What schedulers and users send to a job; the agent itself would end by most of them."""
TO_END: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals that ask a process to end."""
KILL_AFTER_SECONDS: Final = 5.0
"""How long after SIGTERM a process that still runs is killed."""

_WAITED_FOR: Final = TO_PASS_ON | {signal.SIGCHLD, signal.SIGIO}
_SI_KERNEL: Final = 0x80
TO_STDERR: Final = {1: 2, 2: 2}
"""The output of a child in the background: only the job writes to standard output."""


class SignalGate:
    """Blocks signals and waits for them, starts and reaps processes; constructed once, before any thread starts.

    A blocked signal stays pending even where it would be ignored, as by PID 1. SIGTSTP and SIGCONT are not blocked:
    Ctrl-Z stops the whole foreground group, and ``fg`` continues it.
    """

    def __init__(self) -> None:
        self._original_mask = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR))
        self._children: dict[int, Child] = {}
        self.sessions: set[int] = set()
        """The sessions of children that have their own; the processes in them are not part of the job."""
        self.witnesses: set[int] = set()
        """Further children that are not part of the job, as long as they run."""

    def wait(self, seconds: float) -> signal.struct_siginfo | None:
        """Return the next signal; None: none arrived in time."""
        return signal.sigtimedwait(_WAITED_FOR, seconds)

    def spawn(
        self,
        command: list[str],
        environment: Mapping[str, str],
        *,
        streams: Mapping[int, int] | None = None,
        has_own_session: bool = False,
        blocked: Collection[int] = (),
    ) -> Child:
        """Start a program with the signal mask that this process had; ``reap`` notices its end.

        Args:
            blocked: Signals that the program receives once it has unblocked them.
        Raises:
            OSError: It cannot be started.
        """
        mask = self._original_mask | frozenset(blocked)
        child = Child(command, environment, streams=streams, has_own_session=has_own_session, mask=mask)
        self._children[child.pid] = child
        if has_own_session:
            self.sessions.add(child.pid)
        return child

    def reap(self) -> None:
        """Reap every process that has ended: children, and orphans of the job."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.witnesses.discard(pid)
            if (child := self._children.pop(pid, None)) is not None:
                child.code = os.waitstatus_to_exitcode(status)


def notify_of_new_files(folders: Iterable[str]) -> bool:
    """Ask the kernel for SIGIO when a file is created in one of these folders.

    Returns:
        Whether it will; a network file system does not.
    """
    events = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT
    try:
        for folder in folders:
            # kept open until the agent ends: closing the descriptor would cancel the notification
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.fcntl(descriptor, fcntl.F_NOTIFY, events)
    except OSError:
        return False
    return True


def came_from_terminal(info: signal.struct_siginfo) -> bool:
    """Return whether the terminal sent a signal, so that the job received it as well."""
    return info.si_code == _SI_KERNEL


def signal_set(pid: int, name: str) -> frozenset[int]:
    """Return a set of signals from ``/proc/<pid>/status``: ``SigIgn``, ``ShdPnd`` …; empty: it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        mask = int(fields[name.encode()], 16)
    except (OSError, KeyError):
        return frozenset()
    return frozenset(number for number in range(1, signal.NSIG) if mask >> (number - 1) & 1)


def send(identity: Identity, number: int) -> bool:
    """Send a signal to a process, but not to another one that has reused its pid.

    Returns:
        Whether the process exists.
    """
    try:
        descriptor = os.pidfd_open(identity[0])
    except OSError:
        return False
    try:
        # the descriptor pins the process; only now does its start time prove that it is the right one
        if identify(identity[0]) != identity:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True
