"""Who of a node belongs to a run: the processes that joined it, and the lock that its one agent holds."""

from __future__ import annotations

import fcntl
import os
from typing import Final

from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, append_line, make_folder, read_lines

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def node_name() -> str:
    """This machine's name, fit to be a file's."""
    return os.uname().nodename.replace("/", "_") or "node"


def take_lock(path: str) -> int | None:
    """Take a lock that ends with its holder, however that ends.

    Returns:
        A descriptor that holds it, also in a process that inherits it; None: somebody else does.
    Raises:
        OSError: The file cannot be made.
    """
    while True:
        descriptor = os.open(path, _FLAGS, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:  # a file system without locks: who makes the second file holds it
            os.close(descriptor)
            return _take_by_making(f"{path}.held")
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # its holder removed it between the two calls


def _take_by_making(path: str) -> int | None:
    try:
        return os.open(path, _FLAGS | os.O_EXCL, PRIVATE_FILE)
    except FileExistsError:
        return None


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def give_lock_back(descriptor: int, path: str) -> None:
    """Let go of a lock, and leave no file of it behind."""
    for each in (path, f"{path}.held"):
        try:
            os.unlink(each)
        except OSError:
            continue
    os.close(descriptor)


def register_process(run: str, node: str) -> None:
    """Add this process to those that the node's agent watches.

    Raises:
        OSError: It could not be written.
    """
    make_folder(os.path.join(run, layout.NODES))
    with open("/proc/self/stat", "rb") as file:
        started = int(file.read().rpartition(b")")[2].split()[19])
    append_line(os.path.join(run, layout.node_processes(node)), {"pid": os.getpid(), "start": started})


def registered_processes(run: str, node: str) -> list[tuple[int, int]]:
    """Pid and start time (clock ticks since boot) of each process that joined on a node."""
    lines = read_lines(os.path.join(run, layout.node_processes(node)))
    return [(int(each["pid"]), int(each["start"])) for each in lines if isinstance(each, dict)]
