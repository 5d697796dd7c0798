"""A file that only grows: by whole pieces, truncated after a failed write, and never reopened."""

from __future__ import annotations

import os

from leadline.store.documents import PRIVATE_FILE


class AppendOnlyFile:
    """A new, private file.

    Attributes:
        bytes: The size of what was appended.
    """

    def __init__(self, path: str) -> None:
        """
        Raises:
            OSError: It exists, or cannot be created.
        """
        self.path = path
        self.bytes = 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def write(self, data: bytes) -> int:
        """Append a piece, and hand it to the kernel.

        Returns:
            The bytes written.
        Raises:
            OSError: The piece was not written; the file is closed for good.
        """
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, memoryview(data)[written:])
        except OSError:
            os.ftruncate(self._descriptor, self.bytes)
            AppendOnlyFile.close(self)
            raise
        self.bytes += written
        return written

    def close(self) -> None:
        """Close the file; it is never reopened for writing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # the file was opened
            AppendOnlyFile.close(self)  # writes nothing: this may be a copy in a forked process
