"""Files of runs and trials, which may come from anywhere: only regular files are opened, through no link, up to a size.

A run directory that somebody was given may contain a named pipe, whose opening would block; a device, whose reading
would not end; a file of a terabyte; or a link that leads out of the run. Leadline writes none of these.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from typing import Final

from leadline.errors import DamagedRunError
from leadline.store import layout

DOCUMENT_BYTES: Final = 8 << 20
"""The largest document that is read: a summary of thousands of rules has some megabytes. Decoded, the worst of this
size takes twenty times as much memory."""
_DATA: Final = (layout.TENSORS, layout.SERIES, layout.TIMELINE, layout.SYSTEM)
"""The folders that have one folder of files for each worker or node."""
_CHUNK_BYTES: Final = 1 << 20
_LINE_BYTES: Final = 4 << 20
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class IrregularFileError(OSError):
    """It is no regular file, or too large: what Leadline does not write, and does not read."""


def path_below(folder: str, name: str) -> str | None:
    """Return the path of a file in a folder; None: the name leads out of the folder."""
    path = os.path.normpath(os.path.join(folder, name))
    return path if path.startswith(folder + os.sep) else None


def open_regular(path: str) -> FileIO:
    """Open a regular file for reading, unbuffered.

    Raises:
        IrregularFileError: It is anything but a regular file, such as a link.
        OSError: It does not exist, or cannot be read.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise _irregular(path, os.lstat(path).st_mode) from None
        if error.errno == errno.ENAMETOOLONG:  # of a name in a document: there is no such file
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path[:80]) from None
        raise
    except ValueError:  # a null byte
        raise IrregularFileError(errno.EINVAL, "cannot be the name of a file", path) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _irregular(path, mode)
    return FileIO(descriptor)


@contextmanager
def opened_path(path: str) -> Iterator[str]:
    """Open a regular file, and yield a path of the opened file: for libraries that open files themselves.

    Raises:
        IrregularFileError, OSError: As ``open_regular``.
    """
    with open_regular(path) as file:
        yield f"/proc/self/fd/{file.fileno()}"


def read_regular(path: str, limit_bytes: int = DOCUMENT_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises:
        IrregularFileError: As ``open_regular``; or it is larger than ``limit_bytes``.
        OSError: It does not exist, or cannot be read.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit_bytes:
            message = f"has {size:,} bytes, more than the {limit_bytes:,} that are read"
            raise IrregularFileError(errno.EFBIG, message, path)
        return read_at_most(file, limit_bytes)


def regular_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a regular file.

    Raises:
        IrregularFileError: As ``open_regular``; or a line is longer than ``_LINE_BYTES``.
        OSError: It does not exist, or cannot be read.
    """
    with BufferedReader(open_regular(path)) as file:
        while line := file.readline(_LINE_BYTES):
            if len(line) == _LINE_BYTES:
                raise IrregularFileError(errno.EFBIG, f"has a line of more than {_LINE_BYTES:,} bytes", path)
            yield line


def read_at_most(file: FileIO, limit_bytes: int) -> bytes:
    """Return the next bytes of a file, fewer only at its end."""
    parts = []
    while limit_bytes > 0 and (part := file.read(min(limit_bytes, _CHUNK_BYTES))):
        parts.append(part)
        limit_bytes -= len(part)
    return b"".join(parts)


def subfolders(folder: str) -> list[str]:
    """Return the names of the folders in a folder, in order and without links; none if it is no folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def refuse_links(run: str) -> None:
    """Raise an error if a folder of a run is a link: what is written to or removed from it would be another's.

    The files of captured data, of which there may be many, are not listed: they are opened through no link.

    Args:
        run: The run directory, which may be a link itself: that was the choice of who made it.
    Raises:
        DamagedRunError: There is a link.
    """
    _refuse_links(run, frozenset(os.path.join(run, part) for part in _DATA))


def _refuse_links(folder: str, data: frozenset[str]) -> None:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except OSError:  # whoever reads it says why that fails
        return
    for entry in found:
        if entry.is_symlink():
            raise DamagedRunError(
                f"{entry.path} is a symbolic link, which is not followed within a run; "
                "replace it by what it refers to, if you trust that"
            )
        if entry.is_dir(follow_symlinks=False) and os.path.dirname(entry.path) not in data:
            _refuse_links(entry.path, data)


def _irregular(path: str, mode: int) -> IrregularFileError:
    kind = next((name for matches, name in _KINDS if matches(mode)), "no regular file")
    return IrregularFileError(errno.EINVAL, f"is {kind}, not a regular file", path)
