"""The job: a command that the agent started, or a process that it found running."""

from __future__ import annotations

import ctypes
import os
from typing import Final, Protocol

from leadline.agent.signals import SignalGate, send, spawn
from leadline.monitor.processes import Identity, ProcessTree, identify

_PR_SET_CHILD_SUBREAPER: Final = 36


class Job(Protocol):
    """What the agent watches.

    Promises: ``start`` comes first and raises OSError where it cannot; a tree holds the job's processes and no
    other; ``has_ended`` never goes back; ``exit_status`` is None while it runs, and afterwards where nobody can
    know it.
    """

    exit_status: int | None
    """-n where signal n ended it."""
    has_ended: bool
    is_ours: bool
    """Whether the agent started it, and so answers for its signals and its exit status."""

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def new_tree(self) -> ProcessTree: ...

    def on_exit(self, pid: int, code: int) -> None: ...

    def poll(self) -> None: ...

    def pass_on(self, number: int) -> None: ...


class LaunchedJob:
    """A command that is our child; it keeps our terminal, standard streams and process group."""

    is_ours = True

    def __init__(self, command: list[str], environment: dict[str, str], gate: SignalGate) -> None:
        self.exit_status: int | None = None
        self.has_ended = False
        self.pid = 0
        self._identity: Identity = (0, 0)
        self._command, self._environment, self._gate = command, environment, gate

    def start(self) -> None:
        adopt_orphans()
        self.pid = spawn(self._command, self._environment, self._gate)
        self._identity = identify(self.pid) or (self.pid, 0)

    def new_tree(self) -> ProcessTree:
        return ProcessTree(adopter=os.getpid(), outsiders={os.getpid()})

    def on_exit(self, pid: int, code: int) -> None:
        if pid == self.pid and not self.has_ended:
            self.exit_status, self.has_ended = code, True

    def poll(self) -> None: ...

    def pass_on(self, number: int) -> None:
        # our child stays a zombie until we reap it, so its pid is nobody else's
        if not self.has_ended:
            send(self._identity, number)


class AttachedJob:
    """A process that somebody else started; the agent may be its descendant."""

    is_ours = False

    def __init__(self, identity: Identity) -> None:
        self.exit_status: int | None = None
        self.has_ended = False
        self.pid = identity[0]
        self._identity = identity

    def start(self) -> None: ...

    def new_tree(self) -> ProcessTree:
        return ProcessTree(first=self._identity, outsiders={os.getpid()})

    def on_exit(self, pid: int, code: int) -> None: ...

    def poll(self) -> None:
        if identify(self.pid) != self._identity:
            self.has_ended = True

    def pass_on(self, number: int) -> None: ...


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none is lost sight of."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> list[tuple[int, int]]:
    """Every child that has ended, with its exit code (-n for signal n)."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, os.waitstatus_to_exitcode(status)))
