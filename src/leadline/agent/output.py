"""The output of a command, written to a file of limited size."""

from __future__ import annotations

import os
import threading
from typing import Final

from leadline.store.documents import PRIVATE_FILE, make_subfolder

MAX_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16


class Output:
    """A pipe for the output of a command, and a thread that copies it to a file.

    The pipe keeps a command that prints without end from filling the disk that the training writes to. If the file
    cannot be created, the command runs all the same and its output is dropped.

    Raises:
        FileExistsError: The file exists already.
    """

    def __init__(self, path: str, max_bytes: int = MAX_BYTES) -> None:
        self._file = _create(path)
        self._remaining_bytes = max_bytes
        self._is_truncated = False
        self.has_printed = False
        """Whether anything was written to the file."""
        self._reading, self.writing = os.pipe()
        """``writing`` is the end that the command gets."""
        self._thread = threading.Thread(target=self._copy, name="leadline-output", daemon=True)

    def begin(self) -> None:
        """Start copying; the command has its end of the pipe."""
        os.close(self.writing)
        self._thread.start()

    def abandon(self) -> None:
        """Close everything: the command could not be started."""
        os.close(self.writing)
        os.close(self._reading)
        if self._file is not None:
            os.close(self._file)

    def await_end(self, seconds: float) -> None:
        """Wait until all output is in the file; a child that the command left behind may print for ever."""
        self._thread.join(seconds)

    def _copy(self) -> None:
        while data := os.read(self._reading, _CHUNK_BYTES):
            self._write(data)
        os.close(self._reading)
        if self._file is not None:
            os.close(self._file)

    def _write(self, data: bytes) -> None:
        if self._file is None or self._is_truncated:
            return
        kept = data[: self._remaining_bytes]
        self._remaining_bytes -= len(kept)
        if len(kept) < len(data):
            self._is_truncated = True
            kept += b"\n(leadline: output truncated here)\n"
        try:
            os.write(self._file, kept)
            self.has_printed = True
        except OSError:  # the disk is full: the rest is read and dropped, so that the command is not blocked
            self._is_truncated = True


def _create(path: str) -> int | None:
    """Create a private file and return its descriptor; None: it cannot be created.

    Raises:
        FileExistsError: The file exists already.
    """
    try:
        make_subfolder(os.path.dirname(path))
    except OSError:
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        raise
    except OSError:
        return None
