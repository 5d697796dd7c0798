"""Reading many batches of a segment at a time: decoded as one table, checked batch by batch, from any offset on."""

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
"""What is read of a segment at a time."""
_HEAD_BYTES: Final = 1 << 16
"""More than the schema of most segments."""


@dataclass(frozen=True, slots=True)
class Range:
    """Whole batches of a segment that follow each other, checked."""

    info: SegmentInfo
    name: str
    """The segment's file."""
    table: pa.Table
    """Their rows, each column in one piece."""
    rows: Integers
    """How many rows each batch has, ``(batches,)``."""
    ends: Integers
    """The offset at which each batch ends."""
    begin: int
    """The offset at which the first begins."""

    def numbers(self, column: str) -> npt.NDArray[Any]:
        """A column of numbers; the values of a series are ``(rows, width)``."""
        found = self.table[column].combine_chunks()
        if pa.types.is_fixed_size_list(found.type):
            values = np.asarray(found.flatten().to_numpy(zero_copy_only=False))
            return values.reshape(-1, found.type.list_size)
        return np.asarray(found.to_numpy())

    def of_rows(self) -> npt.NDArray[np.intp]:
        """The batch of each row."""
        return np.repeat(np.arange(len(self.rows)), self.rows)


class BulkSegment:
    """A segment that is read on from an offset.

    Attributes:
        offset: Up to where it was read.
        damage: Why no more of it can be read; None where it can.
    """

    def __init__(self, path: str, name: str, offset: int = 0) -> None:
        self.path, self.name, self.offset = path, name, offset
        self.damage: str | None = None
        self.info: SegmentInfo | None = None
        self._head = b""
        self._looked_at = -1

    @property
    def left_bytes(self) -> int:
        """What is written and not read yet, a torn batch at the end included."""
        try:
            return max(os.stat(self.path).st_size - self.offset, 0) if self.damage is None else 0
        except FileNotFoundError:
            return 0

    def read(self, limit_bytes: int = RANGE_BYTES) -> Range | None:
        """The next batches, about so many bytes of them; None: there is no whole one."""
        left = self.left_bytes
        if left == 0 or self.offset + left == self._looked_at:
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
            self._looked_at = self.offset + left
            return None
        assert self.info is not None
        while True:
            try:
                told = np.array(ends, np.int64)
                found = _decode(self._head + data[: ends[-1]], self.info, self.name, told, self.offset)
            except DamageError:
                if len(ends) == 1:
                    raise
                ends = ends[: len(ends) // 2]  # what stands before the damage counts
                continue
            self.offset += ends[-1]
            return found

    def read_head(self, file: Any) -> bool:
        """Read the schema, which begins the segment; whether it is there.

        Raises:
            DamageError: What stands there is none.
        """
        size = os.fstat(file.fileno()).st_size
        data, ends = _whole_messages(file, 0, min(size, _HEAD_BYTES), size)
        if not ends:
            return False
        head = data[: ends[0]]
        try:
            self.info = read_segment_info(pa.ipc.read_schema(pa.BufferReader(head)), self.name)
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            raise DamageError(f"holds what is no Arrow message: {str(error).splitlines()[0]}") from error
        self._head = head
        return True


def read_head(path: str, name: str) -> SegmentInfo | None:
    """What a segment says of its rows; None: it does not say it yet, or cannot be read."""
    segment = BulkSegment(path, name)
    try:
        with open(path, "rb", buffering=0) as file:
            segment.read_head(file)
    except (DamageError, OSError):
        return None
    return segment.info


class BulkStream:
    """The segments of a stream, each read on from an offset; what damage there is ends the reading of its segment.

    Args:
        position: Offsets by segment; what is not in it is read from its beginning.
    """

    def __init__(self, run: str, part: str, stream: str, position: Mapping[str, int] | None = None) -> None:
        self.stream = stream
        self._folder, self._shown = os.path.join(run, part, stream), f"{part}/{stream}"
        self._position = dict(position or {})
        self._segments: dict[str, BulkSegment] = {}
        self._listed: tuple[int, int] = (-1, -1)

    @property
    def position(self) -> dict[str, int]:
        """Up to where each segment was read."""
        return {**self._position, **{name: each.offset for name, each in self._segments.items()}}

    @property
    def damage(self) -> list[str]:
        """One line for each segment that cannot be read on."""
        return [each.damage for each in self._segments.values() if each.damage is not None]

    @property
    def left_bytes(self) -> int:
        """What is written and not read yet."""
        self._list()
        return sum(each.left_bytes for each in self._segments.values())

    @property
    def all_bytes(self) -> int:
        """What is written."""
        return self.left_bytes + sum(self.position.values())

    def read(self, limit_bytes: int) -> list[Range]:
        """The next batches, segment by segment, about so many bytes of them."""
        self._list()
        found: list[Range] = []
        left = limit_bytes
        for segment in self._segments.values():
            while left > 0:
                before = segment.offset
                each = segment.read(min(left, RANGE_BYTES))
                if each is None:
                    break
                left -= segment.offset - before
                found.append(each)
        return found

    def _list(self) -> None:
        try:
            told = os.stat(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        changed = (told.st_mtime_ns, told.st_ino)
        if changed == self._listed:
            return
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(".arrow") and name not in self._segments:
                path = os.path.join(self._folder, name)
                self._segments[name] = BulkSegment(path, f"{self._shown}/{name}", self._position.get(name, 0))
        self._listed = changed


def _whole_messages(file: Any, offset: int, size: int, most: int) -> tuple[bytes, list[int]]:
    """Bytes from an offset on, and where in them whole messages end; at least one message if there is one."""
    while True:
        data, ends, position = _pread(file.fileno(), size, offset), [], 0
        try:
            while (end := message_end(data, position)) is not None and end <= len(data):
                ends.append(end)
                position = end
        except DamageError:
            if not ends:
                raise
        if ends or size >= most:
            return data, ends
        size = min(max(2 * size, end or 0), most)


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
        for each in batches:
            each.validate()
        table = pa.Table.from_batches(batches).combine_chunks()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise DamageError(f"holds what is no Arrow message: {str(error).splitlines()[0]}") from error
    rows = np.array([each.num_rows for each in batches], np.int64)
    ends, rows = ends[rows > 0], rows[rows > 0]
    if len(rows):
        _check(table, rows)
    return Range(info, name.rpartition("/")[2], table.drop_columns(["sequence", "crc32"]), rows, ends + begin, begin)


def _check(table: pa.Table, rows: Integers) -> None:
    """Hold each batch to its checksum."""
    if any(column.null_count for column in table.columns):
        raise DamageError("holds a batch with empty cells")
    edges = np.concatenate([[0], np.cumsum(rows)])
    sequence, crc = (np.asarray(table[name].chunk(0).to_numpy()) for name in ("sequence", "crc32"))
    first = sequence[edges[:-1]]
    if not (np.array_equal(sequence, np.repeat(first, rows)) and bool(np.all(np.diff(first) > 0))):
        raise DamageError("holds a batch out of place")
    found = [zlib.crc32(each.tobytes()) for each in first.astype("<i8")]
    for column in table.columns[2:]:
        for data, places in _buffers(column.chunk(0), edges):
            cuts = places.tolist()
            found = [
                zlib.crc32(data[start:end], before)
                for before, start, end in zip(found, cuts[:-1], cuts[1:], strict=True)
            ]
    if not np.array_equal(crc, np.repeat(np.array(found, np.int64), rows)):
        raise DamageError("holds a batch whose checksum does not match")


def _buffers(column: pa.Array, edges: Integers) -> list[tuple[memoryview, Integers]]:
    """The data of a column as its batches bore them, and where each batch's begin."""
    if pa.types.is_fixed_size_list(column.type):
        values = np.ascontiguousarray(column.flatten().to_numpy(zero_copy_only=False))
        return [(values.view(np.uint8).reshape(-1).data, edges * 8 * column.type.list_size)] if values.size else []
    if not pa.types.is_string(column.type):
        return [(memoryview(column.buffers()[1])[8 * column.offset :], edges * 8)]
    _, offsets, text = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    batches = np.arange(len(edges) - 1)
    of_batch = np.repeat(batches, np.diff(edges) + 1)
    own = places[np.arange(len(column) + len(batches)) - of_batch] - places[edges[:-1]][of_batch]
    told = np.ascontiguousarray(own, np.int32).view(np.uint8).data
    data = memoryview(text) if text is not None else memoryview(b"")
    return [(told, 4 * (edges + np.arange(len(edges)))), (data, places[edges].astype(np.int64))]
