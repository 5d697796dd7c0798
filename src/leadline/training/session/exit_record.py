"""The status with which the training process exits, recorded by the process itself."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Any, Final

from leadline.store.documents import PRIVATE_FILE

_INTERRUPTED: Final = 130


class ExitRecord:
    """A file that gets the exit status of this process as its last byte.

    Python tells nobody the status of ``sys.exit(7)``, not even ``atexit``. The C library does: functions that are
    registered with ``on_exit`` are called with the status, after Python has ended. Here that function is the C
    library's own ``fputc``, which writes one byte. A process that is killed, or calls ``os._exit``, writes nothing:
    its status is unknown, as it is where the C library has no ``on_exit``.

    Raises:
        OSError: The file cannot be created.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._path, self._descriptor = path, os.open(path, flags, PRIVATE_FILE)
        library = ctypes.CDLL(None)
        on_exit = getattr(library, "on_exit", None)
        if on_exit is not None:
            library.fdopen.restype = ctypes.c_void_p
            stream = ctypes.c_void_p(library.fdopen(self._descriptor, b"w"))
            on_exit(ctypes.cast(library.fputc, ctypes.c_void_p), stream)

    def note_exception(self, error: BaseException | None) -> None:
        """Record the status that follows from the exception that ends the process; None: it ends without one.

        A Ctrl-C and the children of multiprocessing do not call the functions of ``on_exit``; otherwise those have the
        last word.
        """
        with suppress(OSError):  # the disk is full: the status remains unknown
            os.write(self._descriptor, bytes([_status_of(error)]))

    def withdraw(self) -> None:
        """Remove the file: the process continues without capture, and its end is no longer that of the worker."""
        self.discard()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def discard(self) -> None:
        """Record nothing from now on; in a forked child, whose end is not that of its parent."""
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, self._descriptor, inheritable=False)
        os.close(null)


def _status_of(error: BaseException | None) -> int:
    """Return the status of a process that ends with an exception."""
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    code: Any = error.code if isinstance(error, SystemExit) else error and 1
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1
