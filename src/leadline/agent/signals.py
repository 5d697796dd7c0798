"""Signals: waited for instead of handled, passed on to the job, and sent to nobody else."""

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
"""Those that ask a process to end."""

_WAITED_FOR: Final = TO_PASS_ON | {signal.SIGCHLD, signal.SIGIO}
_SI_KERNEL: Final = 0x80
# Python ignores these in every process of its own; a command expects the system's way
_IGNORED_BY_PYTHON: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


class SignalGate:
    """Keeps signals pending until they are waited for; made once, before any thread starts.

    A signal that is blocked is kept even where it would be ignored, also by PID 1.
    SIGTSTP and SIGCONT are left alone: Ctrl-Z stops the whole foreground group, and ``fg`` continues it.
    """

    def __init__(self) -> None:
        self.original_mask = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR))

    def wait(self, seconds: float) -> signal.struct_siginfo | None:
        """The next signal, or None when none came in time."""
        return signal.sigtimedwait(_WAITED_FOR, seconds)


def notify_of_new_files(folders: Iterable[str]) -> bool:
    """Ask the kernel for SIGIO when something comes into one of these folders.

    Returns:
        Whether it will; a file system over the network does not.
    """
    events = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT
    try:
        for folder in folders:
            # open until we end: the request lives as long as the descriptor
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.fcntl(descriptor, fcntl.F_NOTIFY, events)
    except OSError:
        return False
    return True


def came_from_terminal(info: signal.struct_siginfo) -> bool:
    """Whether the kernel sent it to the whole foreground group, so that the job has had it already.

    Blind spot: one that somebody sent to the whole group by ``kill -- -PGID`` looks like one to us alone.
    """
    return info.si_code == _SI_KERNEL


def spawn(
    command: list[str],
    environment: dict[str, str],
    gate: SignalGate,
    *,
    is_quiet: bool = False,
    has_own_session: bool = False,
    closes_output: bool = False,
    streams: Mapping[int, int] | None = None,
) -> int:
    """Start a program with the signal mask and dispositions that we were given, and tell its pid.

    Args:
        is_quiet: Its standard input is empty.
        has_own_session: No terminal reaches it.
        closes_output: Its output is thrown away.
        streams: Descriptors of ours that it gets, by the number under which it has them.
    Raises:
        OSError: It cannot be started.
    """
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in (streams or {}).items()]
    if is_quiet:
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    if closes_output:
        actions += [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_WRONLY, 0) for each in (1, 2)]
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
    """Send a signal to that very process, and to no other that came to bear its pid.

    Returns:
        Whether it was there.
    """
    try:
        descriptor = os.pidfd_open(identity[0])
    except OSError:
        return False
    try:
        # the descriptor holds the process; only now does its start time prove that it is the right one
        if identify(identity[0]) != identity:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True
