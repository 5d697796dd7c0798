"""Bulk reading of segments: many batches decoded as one table, each verified against its checksum."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from leadline.reader.segments import DamageError, SegmentInfo, message_end, read_segment_info

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

RANGE_BYTES: Final = 16 << 20
"""The number of bytes read from a segment at a time."""
_HEAD_BYTES: Final = 1 << 16
"""More than the size of the schema in most segments."""


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive whole batches of a segment, verified."""

    info: SegmentInfo
    name: str
    """The file name of the segment."""
    table: pa.Table
    """The rows of the batches, each column contiguous."""
    rows: Integers
    """The number of rows in each batch, ``(batches,)``."""
    ends: Integers
    """The offset at which each batch ends."""
    begin: int
    """The offset at which the first batch begins."""

    def numbers(self, column: str) -> npt.NDArray[Any]:
        """Return a numeric column; the values of a series have the shape ``(rows, width)``."""
        data = self.table[column].combine_chunks()
        if pa.types.is_fixed_size_list(data.type):
            values = np.asarray(data.flatten().to_numpy(zero_copy_only=False))
            return values.reshape(-1, data.type.list_size)
        return np.asarray(data.to_numpy())

    def batch_of_rows(self) -> npt.NDArray[np.intp]:
        """Return the batch index of each row."""
        return np.repeat(np.arange(len(self.rows)), self.rows)


class BulkSegment:
    """Incremental reader of a segment, starting from an offset.

    Attributes:
        offset: The end of the data that was read.
        damage: The reason why reading stopped; None if the segment is intact.
    """

    def __init__(self, path: str, name: str, offset: int = 0) -> None:
        self.path, self.name, self.offset = path, name, offset
        self.damage: str | None = None
        self.info: SegmentInfo | None = None
        self._head = b""
        self._incomplete_size = -1

    @property
    def left_bytes(self) -> int:
        """The number of bytes not read yet, including an incomplete batch at the end."""
        try:
            return max(os.stat(self.path).st_size - self.offset, 0) if self.damage is None else 0
        except FileNotFoundError:
            return 0

    def read(self, limit_bytes: int = RANGE_BYTES) -> Range | None:
        """Return the next batches, about ``limit_bytes`` in total; None if there is no complete batch."""
        left = self.left_bytes
        if left == 0 or self.offset + left == self._incomplete_size:
            return None
        try:
            return self._read(left, limit_bytes)
        except FileNotFoundError:
            return None
        except (DamageError, OSError) as error:
            self.damage = f"{self.name}: {error} (at byte {self.offset})"
            return None

    def _read(self, left: int, limit_bytes: int) -> Range | None:
        with open(self.path, "rb", buffering=0) as file:
            if self.info is None and not self.read_head(file):
                return None
            left = max(left - (len(self._head) if self.offset < len(self._head) else 0), 0)
            self.offset = max(self.offset, len(self._head))
            data, ends = _whole_messages(file, self.offset, min(left, limit_bytes), left)
        if not ends:
            self._incomplete_size = self.offset + left
            return None
        assert self.info is not None
        while True:
            try:
                offsets = np.array(ends, np.int64)
                batches = _decode(self._head + data[: ends[-1]], self.info, self.name, offsets, self.offset)
            except DamageError:
                if len(ends) == 1:
                    raise
                ends = ends[: len(ends) // 2]  # keep the batches before the damage
                continue
            self.offset += ends[-1]
            return batches

    def read_head(self, file: Any) -> bool:
        """Read the schema at the beginning of the segment; return whether it was complete.

        Raises:
            DamageError: The segment does not begin with a schema.
        """
        size = os.fstat(file.fileno()).st_size
        data, ends = _whole_messages(file, 0, min(size, _HEAD_BYTES), size)
        if not ends:
            return False
        head = data[: ends[0]]
        try:
            self.info = read_segment_info(pa.ipc.read_schema(pa.BufferReader(head)), self.name)
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            raise DamageError(f"contains an invalid Arrow message: {str(error).splitlines()[0]}") from error
        self._head = head
        return True


def read_head(path: str, name: str) -> SegmentInfo | None:
    """Return the metadata of a segment; None if it is incomplete or cannot be read."""
    segment = BulkSegment(path, name)
    try:
        with open(path, "rb", buffering=0) as file:
            segment.read_head(file)
    except (DamageError, OSError):
        return None
    return segment.info


class BulkStream:
    """Incremental reader of the segments of a stream; a damaged segment is not read any further.

    Args:
        position: Offsets by segment; segments that are missing here are read from their beginning.
    """

    def __init__(self, run: str, part: str, stream: str, position: Mapping[str, int] | None = None) -> None:
        self.stream = stream
        self._folder, self._display_name = os.path.join(run, part, stream), f"{part}/{stream}"
        self._position = dict(position or {})
        self._segments: dict[str, BulkSegment] = {}
        self._listed: tuple[int, int] = (-1, -1)

    @property
    def position(self) -> dict[str, int]:
        """The offset up to which each segment was read."""
        return {**self._position, **{name: segment.offset for name, segment in self._segments.items()}}

    @property
    def damage(self) -> list[str]:
        """One line for each damaged segment."""
        return [segment.damage for segment in self._segments.values() if segment.damage is not None]

    @property
    def left_bytes(self) -> int:
        """The number of bytes not read yet."""
        self._list()
        return sum(segment.left_bytes for segment in self._segments.values())

    @property
    def all_bytes(self) -> int:
        """The total number of bytes, read or not."""
        return self.left_bytes + sum(self.position.values())

    def read(self, limit_bytes: int) -> list[Range]:
        """Return the next batches, segment by segment, about ``limit_bytes`` in total."""
        self._list()
        ranges: list[Range] = []
        left = limit_bytes
        for segment in self._segments.values():
            while left > 0:
                before = segment.offset
                batches = segment.read(min(left, RANGE_BYTES))
                if batches is None:
                    break
                left -= segment.offset - before
                ranges.append(batches)
        return ranges

    def _list(self) -> None:
        try:
            stat = os.stat(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        changed = (stat.st_mtime_ns, stat.st_ino)
        if changed == self._listed:
            return
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(".arrow") and name not in self._segments:
                path = os.path.join(self._folder, name)
                self._segments[name] = BulkSegment(path, f"{self._display_name}/{name}", self._position.get(name, 0))
        self._listed = changed


def _whole_messages(file: Any, offset: int, size: int, limit: int) -> tuple[bytes, list[int]]:
    """Return bytes from an offset on and the ends of the whole messages in them, at least one if there is one."""
    while True:
        data, ends, position = _pread(file.fileno(), size, offset), [], 0
        try:
            while (end := message_end(data, position)) is not None and end <= len(data):
                ends.append(end)
                position = end
        except DamageError:
            if not ends:
                raise
        if ends or size >= limit:
            return data, ends
        size = min(max(2 * size, end or 0), limit)


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(descriptor, size, offset)
        if not part:
            break
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def _decode(data: bytes, info: SegmentInfo, name: str, ends: Integers, begin: int) -> Range:
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            batches = list(stream)
        for batch in batches:
            batch.validate()
        table = pa.Table.from_batches(batches).combine_chunks()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise DamageError(f"contains an invalid Arrow message: {str(error).splitlines()[0]}") from error
    rows = np.array([batch.num_rows for batch in batches], np.int64)
    ends, rows = ends[rows > 0], rows[rows > 0]
    if len(rows):
        _check(table, rows)
    return Range(info, name.rpartition("/")[2], table.drop_columns(["sequence", "crc32"]), rows, ends + begin, begin)


def _check(table: pa.Table, rows: Integers) -> None:
    """Verify each batch against its checksum."""
    if any(column.null_count for column in table.columns):
        raise DamageError("contains a batch with null values")
    edges = np.concatenate([[0], np.cumsum(rows)])
    sequence, crc = (np.asarray(table[name].chunk(0).to_numpy()) for name in ("sequence", "crc32"))
    first_sequences = sequence[edges[:-1]]
    if not (np.array_equal(sequence, np.repeat(first_sequences, rows)) and bool(np.all(np.diff(first_sequences) > 0))):
        raise DamageError("contains a batch out of order")
    checksums = [zlib.crc32(number.tobytes()) for number in first_sequences.astype("<i8")]
    for column in table.columns[2:]:
        for data, places in _buffers(column.chunk(0), edges):
            cuts = places.tolist()
            checksums = [
                zlib.crc32(data[start:end], checksum)
                for checksum, start, end in zip(checksums, cuts[:-1], cuts[1:], strict=True)
            ]
    if not np.array_equal(crc, np.repeat(np.array(checksums, np.int64), rows)):
        raise DamageError("contains a batch with a wrong checksum")


def _buffers(column: pa.Array, edges: Integers) -> list[tuple[memoryview, Integers]]:
    """Return the buffers of a column as they were written batch by batch, with the start of each batch."""
    if pa.types.is_fixed_size_list(column.type):
        values = np.ascontiguousarray(column.flatten().to_numpy(zero_copy_only=False))
        return [(values.view(np.uint8).reshape(-1).data, edges * 8 * column.type.list_size)] if values.size else []
    if not pa.types.is_string(column.type):
        return [(memoryview(column.buffers()[1])[8 * column.offset :], edges * 8)]
    _, offsets, text = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    batches = np.arange(len(edges) - 1)
    of_batch = np.repeat(batches, np.diff(edges) + 1)
    relative = places[np.arange(len(column) + len(batches)) - of_batch] - places[edges[:-1]][of_batch]
    encoded = np.ascontiguousarray(relative, np.int32).view(np.uint8).data
    data = memoryview(text) if text is not None else memoryview(b"")
    return [(encoded, 4 * (edges + np.arange(len(edges)))), (data, places[edges].astype(np.int64))]
