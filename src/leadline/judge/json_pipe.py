"""Messages between the judge and its rule workers: JSON lines over pipes."""

from __future__ import annotations

import json
import os
from typing import Any

from leadline.store.documents import encode

_CHUNK_BYTES = 1 << 16


def send(descriptor: int, message: Any) -> None:
    """Write one message.

    Raises:
        BrokenPipeError: The other side is gone.
    """
    view = memoryview(encode(message) + b"\n")
    while view:
        view = view[os.write(descriptor, view) :]


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
