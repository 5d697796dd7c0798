"""Messages between a process and its server: JSON with descriptors, over a pair of sockets."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_HEADER = struct.Struct("<I")
_MAX_DESCRIPTORS = 250
NAME = "fork-server"
"""The name of the process that waits, by which it is recognized in ``/proc``."""

LAUNCHER = "torch.distributed.run"
"""A module of others that is forked, too: it starts the processes of a training."""


def is_own(module: str) -> bool:
    """Return whether a module is one of Leadline's."""
    return module.partition(".")[0] == "leadline"


def send(channel: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    body = json.dumps(message).encode()
    socket.send_fds(channel, [_HEADER.pack(len(body))], descriptors or [])
    channel.sendall(body)


def receive(channel: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the next message and its descriptors; None once the other side is gone."""
    header, descriptors, _, _ = socket.recv_fds(channel, _HEADER.size, _MAX_DESCRIPTORS)
    if len(header) < _HEADER.size:
        return None, descriptors
    (length,) = _HEADER.unpack(header)
    body = bytearray()
    while len(body) < length:
        chunk = channel.recv(length - len(body))
        if not chunk:
            return None, descriptors
        body += chunk
    return json.loads(bytes(body)), descriptors
