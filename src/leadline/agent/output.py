"""What a command prints, kept in a file up to a limit."""

from __future__ import annotations

import os
import threading
from typing import Final

from leadline.store.documents import PRIVATE_FILE, make_leaf

MOST_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16


class Output:
    """A pipe that a command writes to, and the thread that carries it into a file.

    Through a pipe, since a command that prints without end must fill no disk that the training writes to. Where the
    disk takes no file the command runs all the same, and what it prints is lost.

    Raises:
        FileExistsError: The file is there already.
    """

    def __init__(self, path: str, most_bytes: int = MOST_BYTES) -> None:
        self._file = _create(path)
        self._room = most_bytes
        self._is_cut = False
        self.has_printed = False
        """Whether the file has something of it."""
        self._reading, self.writing = os.pipe()
        """``writing`` is the command's end."""
        self._thread = threading.Thread(target=self._carry, name="leadline-output", daemon=True)

    def begin(self) -> None:
        """The command has its end: carry on until all that have it are gone."""
        os.close(self.writing)
        self._thread.start()

    def abandon(self) -> None:
        """There is no command."""
        os.close(self.writing)
        os.close(self._reading)
        if self._file is not None:
            os.close(self._file)

    def await_end(self, seconds: float) -> None:
        """Wait until all that was printed is in the file; what a command left behind may print for ever."""
        self._thread.join(seconds)

    def _carry(self) -> None:
        while data := os.read(self._reading, _CHUNK_BYTES):
            self._keep(data)
        os.close(self._reading)
        if self._file is not None:
            os.close(self._file)

    def _keep(self, data: bytes) -> None:
        if self._file is None or self._is_cut:
            return
        kept = data[: self._room]
        self._room -= len(kept)
        if len(kept) < len(data):
            self._is_cut = True
            kept += b"\n(leadline: what was printed after that is left out)\n"
        try:
            os.write(self._file, kept)
            self.has_printed = True
        except OSError:  # the disk is full: the rest is read and lost, so that the command goes on
            self._is_cut = True


def _create(path: str) -> int | None:
    """A private file that was not there; None: the disk takes none.

    Raises:
        FileExistsError: It was there.
    """
    try:
        make_leaf(os.path.dirname(path))
    except OSError:
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        raise
    except OSError:
        return None
