"""Messages between a process and its workers: JSON lines over two pipes, and the worker's side of them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from collections.abc import Iterator
from typing import Any, Final

from leadline.store.documents import encode

INBOX: Final = 3
"""The descriptor from which a worker reads the messages of its parent."""
OUTBOX: Final = 4
"""The descriptor to which a worker writes its answers."""
_CHUNK_BYTES: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1


class MessageReader:
    """Reads messages from a pipe."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.is_closed = False
        self._data = b""

    def receive(self) -> list[Any]:
        """Wait for data, and return the complete messages; none once the other side is gone."""
        chunk = os.read(self.descriptor, _CHUNK_BYTES)
        if not chunk:
            self.is_closed = True
            return []
        *lines, self._data = (self._data + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close the pipe."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def incoming() -> Iterator[Any]:
    """Yield the messages to this worker, until its parent sends no more."""
    for descriptor in (INBOX, OUTBOX):
        os.set_inheritable(descriptor, False)  # a program that it starts must not keep the pipes open
    inbox = MessageReader(INBOX)
    while not inbox.is_closed:
        yield from inbox.receive()


def send(message: Any) -> None:
    """Send a message to the parent of this worker.

    Raises:
        BrokenPipeError: It is gone.
    """
    view = memoryview(encode(message) + b"\n")
    while view:
        view = view[os.write(OUTBOX, view) :]


def become_worker() -> None:
    """Leave Ctrl-C to the parent, and have the kernel kill this process when the parent is gone."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
