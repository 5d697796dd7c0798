"""Processes of a node that belong to a run, and the lock of the node's agent."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Final

from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, append_line, make_folder, read_lines

SIGN_SECONDS: Final = 3.0
"""How often an agent gives a sign of life."""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def node_name() -> str:
    """Return this machine's host name, or ``$LEADLINE_NODE_NAME``, as a valid file name."""
    return (os.environ.get("LEADLINE_NODE_NAME") or os.uname().nodename).replace("/", "_") or "node"


def acquire_lock(path: str) -> int | None:
    """Acquire a lock that is released when its holder ends, in whatever way.

    Returns:
        A descriptor that holds the lock, also in a process that inherits it; None if another process holds it.
    Raises:
        OSError: The file cannot be created.
    """
    while True:
        descriptor = os.open(path, _FLAGS, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:  # no lock support: whoever creates the second file holds the lock
            os.close(descriptor)
            return _acquire_by_creation(f"{path}.held")
        if _is_same_file(descriptor, path):
            os.ftruncate(descriptor, 0)  # of a holder that was killed
            return descriptor
        os.close(descriptor)  # the holder removed the file between the two calls


def _acquire_by_creation(path: str) -> int | None:
    try:
        return os.open(path, _FLAGS | os.O_EXCL, PRIVATE_FILE)
    except FileExistsError:
        return None


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def mark_ready(descriptor: int) -> None:
    """Tell those who wait for a lock's holder that it has created or resumed the run."""
    os.pwrite(descriptor, b"1", 0)


def is_ready(path: str) -> bool:
    """Return whether the holder of a lock has created or resumed the run, or has released the lock."""
    sizes = [os.path.getsize(file) for file in (path, f"{path}.held") if os.path.exists(file)]
    return not sizes or any(sizes)


def release_lock(descriptor: int, path: str) -> None:
    """Release a lock and remove its files."""
    for file in (path, f"{path}.held"):
        try:
            os.unlink(file)
        except OSError:
            continue
    os.close(descriptor)


def break_lock(path: str) -> None:
    """Release a lock by creation whose holder is gone; other locks end with their holder."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.held")


def register_process(run: str, node: str) -> None:
    """Register this process with the node's agent.

    Raises:
        OSError: It could not be written.
    """
    make_folder(os.path.join(run, layout.NODES))
    with open("/proc/self/stat", "rb") as file:
        started = int(file.read().rpartition(b")")[2].split()[19])
    append_line(os.path.join(run, layout.node_processes(node)), {"pid": os.getpid(), "start": started})


def registered_processes(run: str, node: str) -> list[tuple[int, int]]:
    """Return pid and start time (clock ticks since boot) of each process that joined on a node."""
    lines = read_lines(os.path.join(run, layout.node_processes(node)))
    return [(int(line["pid"]), int(line["start"])) for line in lines if isinstance(line, dict)]
