"""The Arrow messages in the file of a segment, plain or compressed, from an offset on."""

from __future__ import annotations

import zlib
from contextlib import suppress
from io import BytesIO, FileIO
from typing import Final, Protocol

import pyarrow as pa

from leadline.store.run_files import read_at_most
from leadline.store.segments import FLUSH_MARK, GZIP, is_compressed

_MAX_MESSAGE_BYTES: Final = 1 << 31
_MAX_INFLATED_BYTES: Final = 64 << 20
"""The largest message in a compressed segment: a file of a megabyte could contain one of a gigabyte."""
_MAX_FLUSHES: Final = 1 << 18
"""More than so large messages have together."""
_CHUNK_BYTES: Final = 1 << 18
"""The number of bytes read from a compressed segment at a time."""
_CONTINUATION: Final = b"\xff\xff\xff\xff"
"""The first bytes of every message."""


class DamageError(Exception):
    """The segment cannot be read beyond this point."""


class Messages(Protocol):
    """The messages of a segment."""

    def read(self, file: FileIO, offset: int, limit_bytes: int, size: int) -> tuple[list[pa.Message], list[int]]:
        """Return the whole messages from an offset on, at least one if there is one, and the offsets of their ends.

        Args:
            offset: The beginning, or the end of a message.
            limit_bytes: About how many bytes of messages are returned.
            size: The size of the file.
        Raises:
            DamageError: No message begins at the offset.
        """

    def end(self, offset: int) -> int:
        """Return the end of the file if only the mark of that follows the offset, which was just read from."""


def messages_of(path: str) -> Messages:
    """Return the reader of a segment's messages."""
    return _GzipMessages() if is_compressed(path) else _PlainMessages()


class _PlainMessages:
    def read(self, file: FileIO, offset: int, limit_bytes: int, size: int) -> tuple[list[pa.Message], list[int]]:
        length = min(limit_bytes, size - offset)
        while True:
            file.seek(offset)
            data = read_at_most(file, length)
            messages, ends, error = _parsed(data)
            needed = length
            if error is not None:
                needed = len(data) + _missing_bytes(data)
                if not messages and needed == len(data):
                    raise invalid_message(error) from error
            if messages or len(data) < length or not length < needed <= size - offset:
                return messages, [offset + end for end in ends]
            length = needed

    def end(self, offset: int) -> int:
        return offset


class _GzipMessages:
    """The messages in a gzip file that its writer flushed after each: every flush ends with the same four bytes.

    Only whole flushes are decompressed, so that what is incomplete at the end is simply read again later. The same
    bytes within the data of a flush do no harm: it is then decompressed in two parts.
    """

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(GZIP)
        self._begin, self._data = 0, b""
        """An offset in the file, and what was decompressed from there on."""
        self._edges: list[tuple[int, int]] = []
        """The offset in the file and in the data at which each flush in them ends."""
        self._inflated = 0
        """The offset in the file up to which it was decompressed."""
        self._failure: DamageError | None = None

    def read(self, file: FileIO, offset: int, limit_bytes: int, size: int) -> tuple[list[pa.Message], list[int]]:
        self._go_to(file, offset, size)
        wanted = limit_bytes
        while True:
            self._inflate(file, wanted, size)
            messages, ends, error = _parsed(self._data)
            if messages:
                return self._flushed(messages, ends)
            missing = _missing_bytes(self._data) if error is not None else 0
            if error is not None and not missing:
                raise invalid_message(error) from error
            if len(self._data) + missing > _MAX_INFLATED_BYTES:
                raise _too_long()
            if len(self._data) < wanted:
                break
            wanted = len(self._data) + missing
        if self._failure is not None:
            raise self._failure
        return [], []

    def end(self, offset: int) -> int:
        return offset if self._data else max(offset, self._inflated)

    def _go_to(self, file: FileIO, offset: int, size: int) -> None:
        """Forget what is before an offset, which is not before that of the last call."""
        while self._inflated < offset:
            self._begin, self._data, self._edges = self._inflated, b"", []
            self._inflate(file, _CHUNK_BYTES, size)
            if self._inflated == self._begin:
                raise self._failure or DamageError("ends before what was read of it")
        if offset == self._begin:
            return
        start = next((place for edge, place in self._edges if edge == offset), None)
        if start is None:
            raise DamageError("has no batch that begins there")
        self._begin, self._data = offset, self._data[start:]
        self._edges = [(edge, place - start) for edge, place in self._edges if edge > offset]

    def _inflate(self, file: FileIO, wanted: int, size: int) -> None:
        """Decompress whole flushes until the data have as many bytes, as far as there are any."""
        parts, length, chunk_bytes = [self._data], len(self._data), _CHUNK_BYTES
        while length < wanted and self._failure is None and self._inflated < size:
            file.seek(self._inflated)
            chunk = read_at_most(file, min(chunk_bytes, size - self._inflated))
            start, end = 0, _end_of_flush(chunk, 0)
            if end == 0:
                is_whole = len(chunk) < chunk_bytes
                self._read_rest(chunk, length, is_whole=is_whole)
                if is_whole:
                    break
                chunk_bytes *= 2
            while length < wanted and self._failure is None and end > start:
                part = self._inflated_part(chunk[start:end])
                if self._failure is None:
                    parts.append(part)
                    length += len(part)
                    self._inflated += end - start
                    self._edges.append((self._inflated, length))
                    if len(self._edges) > _MAX_FLUSHES:
                        self._failure = DamageError("contains too many flushes")
                start, end = end, _end_of_flush(chunk, end)
        self._data = b"".join(parts)

    def _inflated_part(self, flush: bytes) -> bytes:
        try:
            part = self._inflater.decompress(flush, _MAX_INFLATED_BYTES)
        except zlib.error as error:
            self._failure = DamageError(f"cannot be decompressed: {error}")
            return b""
        if self._inflater.unconsumed_tail:
            self._failure = _too_long()
        elif self._inflater.eof:
            self._failure = DamageError("goes on after the mark of its end")
        return part

    def _read_rest(self, rest: bytes, length: int, *, is_whole: bool) -> None:
        """Read what follows the last flush: the mark of the end, or the beginning of a flush, which is only checked."""
        inflater = self._inflater.copy()
        try:
            data = inflater.decompress(rest, _CHUNK_BYTES)
        except zlib.error as error:
            self._failure = DamageError(f"cannot be decompressed: {error}")
            return
        if inflater.eof and (data or inflater.unused_data):
            self._failure = DamageError("was not flushed after its last message")
        elif inflater.eof and is_whole:
            self._inflated += len(rest)
            self._edges.append((self._inflated, length))
        elif len(rest) > _MAX_INFLATED_BYTES:
            self._failure = _too_long()

    def _flushed(self, messages: list[pa.Message], ends: list[int]) -> tuple[list[pa.Message], list[int]]:
        """Return the messages until one does not end where a flush ends, and their ends in the file."""
        edges = {place: edge for edge, place in self._edges}
        count = next((at for at, end in enumerate(ends) if end not in edges), len(ends))
        if not count:
            raise DamageError("contains a message that does not end where it was flushed")
        return messages[:count], [edges[end] for end in ends[:count]]


def _end_of_flush(data: bytes, start: int) -> int:
    """Return where the first flush from a place on ends; that place if there is none."""
    at = data.find(FLUSH_MARK, start)
    return at + len(FLUSH_MARK) if at >= 0 else start


def invalid_message(error: Exception) -> DamageError:
    """Return the error of what Arrow cannot read."""
    return DamageError(f"contains an invalid Arrow message: {str(error).splitlines()[0]}")


def _too_long() -> DamageError:
    return DamageError(f"contains a message of more than {_MAX_INFLATED_BYTES >> 20} MB")


def _parsed(data: bytes) -> tuple[list[pa.Message], list[int], Exception | None]:
    """Return the whole messages at the beginning of data, their ends, and why there is no other one.

    Raises:
        DamageError: There are data, but neither a message nor an error.
    """
    source = pa.BufferReader(data)
    messages: list[pa.Message] = []
    ends: list[int] = []
    try:
        for message in pa.ipc.MessageReader.open_stream(source):
            messages.append(message)
            ends.append(source.tell())
    except (pa.ArrowException, OSError) as error:
        return messages, ends, error
    if data and not messages:
        raise DamageError("contains no message at the expected offset")
    return messages, ends, None


class _EndOfFile(BytesIO):
    """Data whose reader may ask for more than there is; counts the missing bytes."""

    missing = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.missing += max((size or 0) - len(data), 0)
        return data


def _missing_bytes(data: bytes) -> int:
    """Return how many bytes the reader of a message asked for beyond the end of the data; 0 if that is no message."""
    source = _EndOfFile(data)
    with suppress(pa.ArrowException, OSError, StopIteration):
        pa.ipc.MessageReader.open_stream(source).read_next_message()
    is_message = _CONTINUATION.startswith(data[: len(_CONTINUATION)]) and source.missing <= _MAX_MESSAGE_BYTES
    return source.missing if is_message else 0
