"""Append-only Arrow segments: they grow by whole batches, are truncated after a failed write, and never reopened.

Those of narrow rows are compressed: without that, what is the same in each row and batch takes most of their bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from leadline.store import layout
from leadline.store.append_only_file import AppendOnlyFile
from leadline.store.codec import BatchEncoder, Buffer, Columns, TableSchema, int64_buffer, message_end
from leadline.store.documents import make_subfolder

GZIP: Final = 16 + zlib.MAX_WBITS
"""The argument of ``zlib.decompressobj`` for a compressed segment."""
FLUSH_MARK: Final = b"\0\0\xff\xff"
"""The last bytes of a flush of zlib."""
SEGMENT_BYTES: Final = 64 << 20
"""A larger segment gets no further batches."""
_COMPRESSED_SEGMENT_BYTES: Final = 8 << 20
"""The same for a compressed one, which is read from its beginning on."""
_COMPRESSED_WIDTH: Final = 256
"""Rows of more values consist of these: what would be saved is not worth the processor time."""
_LEVEL, _WINDOW, _MEMORY = 1, 13, 6
"""The settings of zlib: 64 kB for an open segment, and nearly as small as with more memory or time."""
_RATIO: Final = 5
"""A compressed segment is about so many times smaller."""


def is_compressed(path: str) -> bool:
    """Return whether a segment is compressed."""
    return path.endswith(layout.COMPRESSED)


def row_bytes(path: str, size: int) -> int:
    """Return about how many bytes of Arrow there are in so many bytes of a segment."""
    return size * _RATIO if is_compressed(path) else size


class Segment(AppendOnlyFile):
    """One Arrow IPC stream file, compressed if its name says so: a gzip member that is flushed after each message."""

    def __init__(self, path: str, encoder: BatchEncoder) -> None:
        self._encoder = encoder
        self._compressor = (
            zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + _WINDOW, _MEMORY) if is_compressed(path) else None
        )
        super().__init__(path)

    @property
    def is_full(self) -> bool:
        return self.bytes > (SEGMENT_BYTES if self._compressor is None else _COMPRESSED_SEGMENT_BYTES)

    @property
    def schema(self) -> TableSchema:
        return self._encoder.schema

    def append(self, sequence: int, rows: int, columns: Mapping[str, Buffer | Sequence[str]]) -> int:
        """Append one batch and hand it to the kernel.

        Returns:
            The bytes written.
        Raises:
            OSError: The batch was not written; the segment is closed for good.
        """
        is_first = self.bytes == 0
        data = self._encoder.encode(sequence, rows, columns)
        if self._compressor is None:
            return self.write(data)
        batch = message_end(data) if is_first else 0
        return self.write(b"".join(self._flushed(part) for part in (data[:batch], data[batch:]) if part))

    def close(self) -> None:
        """Close the file; a compressed one is whole then, also for other programs."""
        if self._compressor is not None and self.is_open and self.bytes:
            with suppress(OSError):  # the disk is full: readers need no mark of the end
                self.write(self._compressor.flush())
        super().close()

    def _flushed(self, message: bytes) -> bytes:
        assert self._compressor is not None
        return self._compressor.compress(message) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def append_records(self, sequence: int, records: Sequence[Mapping[str, int | str]]) -> None:
        """Append records of integers and texts as one batch; nothing if there are none.

        Raises:
            OSError: See ``append``.
        """
        if not records:
            return
        columns: Columns = {}
        for name, kind in self.schema.columns:
            values = [record[name] for record in records]
            columns[name] = int64_buffer(list(map(int, values))) if kind == "int64" else list(map(str, values))
        self.append(sequence, len(records), columns)


class SegmentFolder:
    """The segments of one stream, numbered in the order in which they were opened, after those that exist.

    Args:
        compresses: Whether segments of narrow rows are compressed; earlier versions compressed none.
    """

    def __init__(self, run: str, part: str, stream: str, *, compresses: bool = True) -> None:
        self._run = run
        self._part = part
        self._stream = stream
        self._compresses = compresses
        self._ordinal = last_ordinal(os.path.join(run, part, stream))

    def open(self, schema: TableSchema, metadata: Mapping[str, str]) -> Segment:
        """Open the next segment."""
        self._ordinal += 1
        is_narrow = self._compresses and schema.width <= _COMPRESSED_WIDTH
        path = os.path.join(self._run, layout.segment(self._part, self._stream, self._ordinal, is_compressed=is_narrow))
        make_subfolder(os.path.dirname(path))
        return Segment(path, BatchEncoder(schema, {"stream": self._stream, **metadata}))


def last_ordinal(folder: str) -> int:
    """Return the highest number of a segment in the folder of a stream; 0 if there is none."""
    try:
        stems = [name.partition(".")[0] for name in os.listdir(folder)]
    except FileNotFoundError:
        return 0
    return max((int(stem) for stem in stems if stem.isdecimal()), default=0)
