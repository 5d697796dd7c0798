"""Small JSON documents: replaced atomically, appended line by line, or rewritten in place."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

from leadline.records.decoding import Document
from leadline.records.json_object import JsonObject
from leadline.store.run_files import DOCUMENT_BYTES, IrregularFileError, open_regular, read_at_most, read_regular

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_PAGE = 4096
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB]")
_MAX_CONTAINERS: Final = 100_000
_READ_ATTEMPTS: Final = 5
_READ_PAUSE_SECONDS: Final = 0.001


def encode(value: Any) -> bytes:
    """Encode as one line of JSON in UTF-8; NaN and infinity become strings, since JSON cannot represent them.

    A lone surrogate, which UTF-8 cannot represent, is written out as in ``layout.valid_name``.
    """
    text = json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: rf"\\u{ord(match[0]):04x}", text).encode()


def to_json(value: Any) -> Any:
    """Return a record, or a value that contains some, as plain JSON values."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if isinstance(value, Document):
        value = value.fields()
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def make_folder(path: str) -> None:
    """Create a private folder and its missing parents, which are private too."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent:
        make_folder(parent)
    make_subfolder(path)


def make_subfolder(path: str) -> None:
    """Create a private folder in an existing one: a run that was deleted is not created again.

    Raises:
        OSError: The parent folder does not exist or is not writable.
    """
    try:
        os.mkdir(path, PRIVATE_FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


@contextmanager
def replace_file(path: str) -> Iterator[IO[bytes]]:
    """Open a private file that replaces ``path`` once it is complete: readers see the old or the new content.

    Several threads, processes and nodes may replace a file at the same time; the last one wins. Until then the file has
    a name of its own that ends in ``.part``.

    Raises:
        OSError: It could not be written; the old content is kept.
    """
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(".part", f"{name}.", folder or os.curdir)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        # an exception that a signal handler raises may arrive when the file has its name already
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_document(path: str, value: Any) -> None:
    """Replace a document atomically.

    Raises:
        OSError: It could not be written; the old content is kept.
    """
    data = encode(value) + b"\n"
    with replace_file(path) as file:
        file.write(data)


def read_document(path: str) -> Any | None:
    """Return a document; None if it does not exist yet, is being rewritten in place, or is nothing that Leadline wrote.

    Raises:
        OSError: It exists but cannot be read.
    """
    try:
        return _decode(read_regular(path))
    except (FileNotFoundError, NotADirectoryError, IrregularFileError, ValueError, RecursionError):
        return None


def _decode(data: bytes) -> Any:
    """Decode JSON; lone surrogates, which no text of UTF-8 contains, are written out as in ``layout.valid_name``.

    Raises:
        ValueError: It is none, or has so many lists and objects that it was made to fill the memory.
        RecursionError: They are nested too deeply.
    """
    if data.count(b"[") + data.count(b"{") > _MAX_CONTAINERS:
        raise ValueError(f"more than {_MAX_CONTAINERS:,} lists and objects")
    value = json.loads(data)
    return _without_surrogates(value) if _ESCAPED_SURROGATE.search(data) else value


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def read_with_retries(path: str) -> JsonObject | None:
    """Return a document that may be rewritten in place at this very moment; None: it is missing or no object.

    Raises:
        OSError: It exists but cannot be read.
    """
    for attempt in range(_READ_ATTEMPTS):
        if attempt:
            time.sleep(_READ_PAUSE_SECONDS)
        document = read_document(path)
        if document is not None:
            return document if isinstance(document, dict) else None
    return None


def append_line(path: str, value: Any) -> None:
    """Append one JSON line in a single write, so that lines of several processes do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        _write_all(descriptor, encode(value) + b"\n")
    finally:
        os.close(descriptor)


def read_lines(path: str) -> list[Any]:
    """Return all complete lines of a JSON-lines file up to ``DOCUMENT_BYTES``; an incomplete last line is ignored."""
    try:
        with open_regular(path) as file:
            data = read_at_most(file, DOCUMENT_BYTES)
    except (FileNotFoundError, NotADirectoryError, IrregularFileError):
        return []
    lines = []
    for line in data.split(b"\n")[:-1]:
        try:
            lines.append(_decode(line))
        except (ValueError, RecursionError):
            continue
    return lines


class InPlaceDocument:
    """A document rewritten within its allocated blocks, so that it can be updated even on a full disk."""

    def __init__(self, path: str, value: Any) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, PRIVATE_FILE)
        self._size = 4 * _PAGE
        self.write(value)

    def write(self, value: Any) -> None:
        """Rewrite the document; it grows by whole pages if necessary."""
        data = encode(value) + b"\n"
        self._size = max(self._size, -(-len(data) // _PAGE) * _PAGE)
        padded = data[:-1] + b" " * (self._size - len(data)) + b"\n"
        view = memoryview(padded)
        offset = 0
        while offset < len(padded):
            offset += os.pwrite(self._descriptor, view[offset:], offset)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
