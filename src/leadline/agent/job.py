"""The job: a command that the agent started, or a process that it found running."""

from __future__ import annotations

import ctypes
import os
from typing import Final, Protocol

from leadline.agent.progress import Follower
from leadline.agent.signals import SignalGate, send, spawn
from leadline.monitor.processes import Identity, ProcessTree, identify
from leadline.store import layout
from leadline.store.presence import give_lock_back, registered_processes, take_lock

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

    @property
    def pids(self) -> set[int]: ...

    def start(self) -> None: ...

    def new_tree(self) -> ProcessTree: ...

    def on_exit(self, pid: int, code: int) -> None: ...

    def poll(self) -> None: ...

    def pass_on(self, number: int) -> None: ...

    def leave(self) -> bool: ...


class LaunchedJob:
    """A command that is our child; it keeps our terminal, standard streams and process group."""

    is_ours = True

    def __init__(self, command: list[str], environment: dict[str, str], gate: SignalGate) -> None:
        self.exit_status: int | None = None
        self.has_ended = False
        self.pid = 0
        self._identity: Identity = (0, 0)
        self._command, self._environment, self._gate = command, environment, gate

    @property
    def pids(self) -> set[int]:
        return {self.pid}

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

    def leave(self) -> bool:
        return True

    def pass_on(self, number: int) -> None:
        # our child stays a zombie until we reap it, so its pid is nobody else's
        if not self.has_ended:
            send(self._identity, number)


class AttachedJob:
    """Processes that somebody else started: a first one, and those that join it."""

    is_ours = False

    def __init__(self, identity: Identity, attendance: Attendance | None = None) -> None:
        self.exit_status: int | None = None
        self.has_ended = False
        self.pid = identity[0]
        self._alive = {identity}
        self._seen = {identity}
        self._attendance = attendance
        self._trees: list[ProcessTree] = []

    @property
    def pids(self) -> set[int]:
        """Those that run."""
        return {pid for pid, _ in self._alive}

    def start(self) -> None:
        self._admit_joined()

    def new_tree(self) -> ProcessTree:
        tree = ProcessTree(first=self._seen, outsiders={os.getpid()})
        self._trees.append(tree)
        return tree

    def on_exit(self, pid: int, code: int) -> None: ...

    def poll(self) -> None:
        self._admit_joined()
        self._alive = {each for each in self._alive if identify(each[0]) == each}
        if not self._alive:
            self.has_ended = self.leave()

    def leave(self) -> bool:
        """Watch no more, unless somebody joined just now; whether that is so."""
        if self._attendance is None or self.has_ended:
            return True
        self._attendance.close()
        has_more = self._admit_joined(in_any_case=True)  # who joined before the lock was free relies on us
        return not has_more or not self._attendance.open()

    def _admit_joined(self, *, in_any_case: bool = False) -> bool:
        """Watch who joined since the last time; whether there is somebody."""
        if self._attendance is None:
            return False
        joined = set(self._attendance.joined(in_any_case=in_any_case)) - self._seen
        self._seen |= joined
        for each in joined:
            for tree in self._trees:
                tree.admit(each)
        alive = {each for each in joined if identify(each[0]) == each}
        self._alive |= alive
        return bool(alive)

    def pass_on(self, number: int) -> None: ...


class Attendance:
    """The node's lock of a run, and the processes that joined under it.

    Args:
        lock: The descriptor that holds it, if this process does.
    """

    def __init__(self, run: str, node: str, lock: int | None) -> None:
        self._run, self._node, self._lock = run, node, lock
        self._path = os.path.join(run, layout.node_lock(node))
        self._file = Follower(os.path.join(run, layout.node_processes(node)))

    def joined(self, *, in_any_case: bool = False) -> list[Identity]:
        """Who joined, where that changed."""
        return registered_processes(self._run, self._node) if self._file.has_changed() or in_any_case else []

    def open(self) -> bool:
        """Take the lock, where nobody else has; whether it is ours."""
        if self._lock is None:
            self._lock = take_lock(self._path)
        return self._lock is not None

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            give_lock_back(self._lock, self._path)
            self._lock = None


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
