"""The job: a command that the agent launched, or running processes that it attached to."""

from __future__ import annotations

import ctypes
import os
from typing import Final, Protocol

from leadline.agent.progress import WatchedFile
from leadline.agent.signals import SignalGate, send, signal_set
from leadline.monitor.processes import Identity, ProcessTree, identify
from leadline.process.child import Child
from leadline.store import layout
from leadline.store.node_lock import acquire_lock, mark_ready, registered_processes, release_lock

_PR_SET_CHILD_SUBREAPER: Final = 36
_OWN_STREAMS: Final = {number: number for number in range(3)}


class Job(Protocol):
    """The interface of the job to the agent.

    Implementations promise:

    **Order** - ``start`` is called first, and raises OSError if the job cannot be started.

    **Exact trees** - a tree contains the processes of the job and no others.

    **Final** - ``has_ended`` never becomes False again. ``exit_status`` is None while the job runs, and afterwards
    where it is unknown.
    """

    exit_status: int | None
    """The exit code, -n for signal n."""
    has_ended: bool
    is_ours: bool
    """Whether the agent launched it, and so is responsible for its signals and its exit status."""

    @property
    def pid(self) -> int: ...

    @property
    def pids(self) -> set[int]: ...

    def start(self) -> None: ...

    def new_tree(self) -> ProcessTree: ...

    def poll(self) -> None: ...

    def pass_on(self, number: int) -> None: ...

    def ignores(self, number: int) -> bool: ...

    def is_in_own_group(self) -> bool: ...

    def leave(self) -> bool: ...


class LaunchedJob:
    """A command that the agent launched as its child; it shares terminal, standard streams and process group.

    Args:
        registration: Where further processes of the run on this node register; the job ends with the last of them.
    """

    is_ours = True

    def __init__(
        self, command: list[str], environment: dict[str, str], gate: SignalGate, registration: NodeRegistration
    ) -> None:
        self.exit_status: int | None = None
        self.has_ended = False
        self._child: Child | None = None
        self._identity: Identity = (0, 0)
        self._command, self._environment, self._gate = command, environment, gate
        self._registration = registration

    @property
    def pid(self) -> int:
        return 0 if self._child is None else self._child.pid

    @property
    def pids(self) -> set[int]:
        return {self.pid}

    def start(self) -> None:
        adopt_orphans()
        self._child = self._gate.spawn(self._command, self._environment, streams=_OWN_STREAMS)
        self._identity = identify(self.pid) or (self.pid, 0)

    def new_tree(self) -> ProcessTree:
        tree = ProcessTree(subreaper=os.getpid(), excluded={os.getpid()})
        tree.foreign_pids = self._gate.witnesses
        return tree

    def poll(self) -> None:
        if self._child is not None and self._child.code is not None:
            self.exit_status = self._child.code
            registered = self._registration.processes(always_read=True)
            self.has_ended = all(identify(identity[0]) != identity for identity in registered)

    def leave(self) -> bool:
        return True

    def pass_on(self, number: int) -> None:
        # our child stays a zombie until we reap it, so its pid cannot be reused
        if not self.has_ended:
            send(self._identity, number)

    def ignores(self, number: int) -> bool:
        """Return whether the command ignores a signal, so that it means nothing to it."""
        return number in signal_set(self.pid, "SigIgn")

    def is_in_own_group(self) -> bool:
        """Return whether the command has left the process group of this process."""
        try:
            return os.getpgid(self.pid) != os.getpgrp()
        except ProcessLookupError:
            return False


class AttachedJob:
    """Processes that were running already: a first one, and others that registered with the node."""

    is_ours = False

    def __init__(self, identity: Identity, registration: NodeRegistration | None = None) -> None:
        self.exit_status: int | None = None
        self.has_ended = False
        self.pid = identity[0]
        self._alive = {identity}
        self._seen = {identity}
        self._registration = registration
        self._trees: list[ProcessTree] = []

    @property
    def pids(self) -> set[int]:
        """The pids of the processes that are running."""
        return {pid for pid, _ in self._alive}

    def start(self) -> None:
        self._add_registered()

    def new_tree(self) -> ProcessTree:
        tree = ProcessTree(first=self._seen, excluded={os.getpid()})
        self._trees.append(tree)
        return tree

    def poll(self) -> None:
        self._add_registered()
        self._alive = {identity for identity in self._alive if identify(identity[0]) == identity}
        if not self._alive:
            self.has_ended = self.leave()

    def leave(self) -> bool:
        """Stop watching, unless another process has just registered; return whether watching stopped."""
        if self._registration is None or self.has_ended:
            return True
        self._registration.close()
        # a process that registered before the lock was released relies on this agent
        has_more = self._add_registered(always_read=True)
        return not has_more or not self._registration.open()

    def _add_registered(self, *, always_read: bool = False) -> bool:
        """Watch the processes that registered since the last call; return whether any of them is running."""
        if self._registration is None:
            return False
        registered = set(self._registration.processes(always_read=always_read)) - self._seen
        self._seen |= registered
        for identity in registered:
            for tree in self._trees:
                tree.add(identity)
        alive = {identity for identity in registered if identify(identity[0]) == identity}
        self._alive |= alive
        return bool(alive)

    def pass_on(self, number: int) -> None: ...

    def ignores(self, number: int) -> bool:
        return False

    def is_in_own_group(self) -> bool:
        return False


class NodeRegistration:
    """The node's lock of a run, and the processes that registered while it was held.

    Args:
        lock: The descriptor that holds the lock; None: this process does not hold it.
    """

    def __init__(self, run: str, node: str, lock: int | None) -> None:
        self._run, self._node, self._lock = run, node, lock
        self._path = os.path.join(run, layout.node_lock(node))
        self._file = WatchedFile(os.path.join(run, layout.node_processes(node)))

    def processes(self, *, always_read: bool = False) -> list[Identity]:
        """Return the registered processes, if their file changed."""
        return registered_processes(self._run, self._node) if self._file.has_changed() or always_read else []

    def open(self) -> bool:
        """Acquire the lock unless another process holds it; return whether this process holds it now."""
        if self._lock is None:
            self._lock = acquire_lock(self._path)
            if self._lock is not None:
                mark_ready(self._lock)
        return self._lock is not None

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            release_lock(self._lock, self._path)
            self._lock = None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that the agent keeps track of them."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
