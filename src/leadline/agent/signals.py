"""Signals and child processes of the agent: waiting for signals, forwarding them, and starting programs."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterable, Mapping
from typing import Any, Final

from leadline.monitor.processes import Identity, identify

TO_PASS_ON: Final = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
    }
)
TO_END: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Signals that ask a process to end."""

_WAITED_FOR: Final = TO_PASS_ON | {signal.SIGCHLD, signal.SIGIO}
_SI_KERNEL: Final = 0x80
# Python ignores these in its own processes; a command expects the default
_IGNORED_BY_PYTHON: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


class SignalGate:
    """Blocks signals and waits for them; constructed once, before any thread starts.

    A blocked signal stays pending even where it would be ignored, as by PID 1. SIGTSTP and SIGCONT are not blocked:
    Ctrl-Z stops the whole foreground group, and ``fg`` continues it.
    """

    def __init__(self) -> None:
        self.original_mask = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR))

    def wait(self, seconds: float) -> signal.struct_siginfo | None:
        """Return the next signal; None: none arrived in time."""
        return signal.sigtimedwait(_WAITED_FOR, seconds)


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
    """Return whether the terminal sent a signal, so that the job received it as well.

    Blind spot: a signal sent to the whole process group by ``kill -- -PGID`` looks like one to the agent alone.
    """
    return info.si_code == _SI_KERNEL


def spawn(
    command: list[str],
    environment: dict[str, str],
    gate: SignalGate,
    *,
    is_background: bool = False,
    has_own_session: bool = False,
    closes_output: bool = False,
    streams: Mapping[int, int] | None = None,
) -> int:
    """Start a program with the original signal mask and dispositions, and return its pid.

    Args:
        is_background: Whether its standard input is empty and its standard output goes to standard error, so that only
            the job writes to standard output.
        has_own_session: Whether it gets its own session, without the terminal.
        closes_output: Whether its output is discarded.
        streams: Descriptors of the agent that it inherits, by their number in the program.

    Raises:
        OSError: It cannot be started.
    """
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in (streams or {}).items()]
    if is_background:
        actions += [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
    if closes_output:
        actions += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    return os.posix_spawnp(
        command[0],
        command,
        environment,
        file_actions=actions,
        setsigmask=gate.original_mask,
        setsigdef=_IGNORED_BY_PYTHON,
        setsid=has_own_session,
    )


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
