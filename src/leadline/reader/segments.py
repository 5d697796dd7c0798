"""Incremental reader of an Arrow segment: whole batches, verified, as tables."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from leadline.reader.messages import DamageError, invalid_message, messages_of
from leadline.records.metric import Channel
from leadline.records.series import SeriesLayout
from leadline.store import codec
from leadline.store.run_files import open_regular
from leadline.store.segments import row_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

_PARTS: Final = ("series", "timeline", "system")
"""The folders of segments, named as their kinds."""
_RANGE_BYTES: Final = 16 << 20
"""The number of bytes read from a segment at a time."""
_HEAD_BYTES: Final = 1 << 16
"""More than the size of the schema in most segments."""
_ALIGNMENT: Final = 8
"""Columns are padded to multiples of so many bytes."""
_SCHEMAS: Final = {"system": codec.SYSTEM.columns, "timeline": codec.TIMELINE.columns}


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """The metadata of a segment."""

    kind: str
    """``series``, ``timeline`` or ``system``."""
    path: str
    layout: SeriesLayout | None = None
    """The columns of a series; None for other kinds."""
    channels: tuple[Channel, ...] = ()
    """The channels of system metrics."""


@dataclass(frozen=True, slots=True)
class Range:
    """Consecutive whole batches of a segment, verified; at least one."""

    info: SegmentInfo
    name: str
    """The file name of the segment."""
    table: pa.Table
    """The rows of the batches, each column contiguous."""
    sequences: Integers
    """The sequence number of each batch, ascending, ``(batches,)``."""
    rows: Integers
    """The number of rows in each batch, at least one, ``(batches,)``."""
    ends: Integers
    """The offset at which each batch ends."""
    begin: int
    """The offset at which the first batch begins."""
    _numbers: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)
    _texts: dict[str, list[str]] = field(default_factory=dict, repr=False, compare=False)

    def numbers(self, column: str) -> npt.NDArray[Any]:
        """Return a numeric column; the values of a series have the shape ``(rows, width)``."""
        values = self._numbers.get(column)
        if values is None:
            data = self.table[column].chunk(0)
            is_list = pa.types.is_fixed_size_list(data.type)
            values = np.asarray((data.flatten() if is_list else data).to_numpy(zero_copy_only=False))
            values = values.reshape(len(data), data.type.list_size) if is_list else values
            self._numbers[column] = values
        return values

    def texts(self, column: str) -> list[str]:
        """Return a column of strings; equal strings are the same object."""
        texts = self._texts.get(column)
        if texts is None:
            encoded = self.table[column].chunk(0).dictionary_encode()
            distinct = encoded.dictionary.to_pylist()
            self._texts[column] = texts = [distinct[index] for index in encoded.indices.to_numpy().tolist()]
        return texts

    def batch_of_rows(self) -> npt.NDArray[np.intp]:
        """Return the batch index of each row."""
        return np.repeat(np.arange(len(self.rows)), self.rows)

    def slice(self, start: int, end: int) -> Range:
        """Return the batches ``start`` to ``end - 1``."""
        if (start, end) == (0, len(self.rows)):
            return self
        first, count = int(self.rows[:start].sum()), int(self.rows[start:end].sum())
        return replace(
            self,
            table=self.table.slice(first, count),
            sequences=self.sequences[start:end],
            rows=self.rows[start:end],
            ends=self.ends[start:end],
            begin=int(self.ends[start - 1]) if start else self.begin,
            _numbers={},
            _texts={},
        )


class SegmentTail:
    """Incremental reader of a segment.

    Args:
        offset: Where to start: the beginning, or the end of a batch.

    Attributes:
        offset: The end of the batches that were read.
        info: The metadata from the schema; None until the schema was read.
        damage: The reason why reading stopped, with path and offset; None if the segment is intact.
        torn_at: The offset of an incomplete batch at the end; None if the last batch is complete.
    """

    def __init__(self, path: str, name: str, offset: int = 0) -> None:
        self.path, self.name, self.offset = path, name, offset
        self.info: SegmentInfo | None = None
        self.damage: str | None = None
        self.torn_at: int | None = None
        self._messages = messages_of(path)
        self._schema: Any = None
        self._read_size = 0
        """The size of the file when nothing more could be read."""
        self._last_sequence = -1

    @property
    def left_bytes(self) -> int:
        """The number of bytes not read yet, including an incomplete batch at the end; estimated if compressed."""
        try:
            left = max(os.lstat(self.path).st_size - self.offset, 0) if self.damage is None else 0
            return row_bytes(self.path, left)
        except FileNotFoundError:
            return 0

    def read(self, limit_bytes: int = _RANGE_BYTES) -> Range | None:
        """Return the next batches, about ``limit_bytes`` in total; None if there is no complete batch.

        An unchanged segment costs a single ``stat``.
        """
        if self.damage is not None:
            return None
        try:
            size = os.lstat(self.path).st_size
            if size == self._read_size:
                return None
            if size < self.offset:
                raise DamageError("was truncated")
            with open_regular(self.path) as file:
                batches = self._read(file, size, limit_bytes) if self._has_schema(file, size) else None
        except FileNotFoundError:
            return None
        except DamageError as error:
            self.damage = f"{self.name}: {error} (at byte {self.offset})"
            return None
        except OSError as error:
            self.damage = f"{self.name}: cannot be read: {error.strerror or error} (at byte {self.offset})"
            return None
        if batches is None:
            self.offset = self._messages.end(self.offset)
        if batches is None or self.offset == size:
            self._read_size = size
            self.torn_at = self.offset if size > self.offset else None
        return batches

    def read_info(self) -> SegmentInfo | None:
        """Return the metadata without reading any batch; None if they are incomplete or cannot be read."""
        with suppress(DamageError, OSError), open_regular(self.path) as file:
            self._has_schema(file, os.fstat(file.fileno()).st_size)
        return self.info

    def _has_schema(self, file: FileIO, size: int) -> bool:
        """Read the schema at the beginning of the segment, once; return whether it is complete."""
        if self.info is None:
            messages, ends = self._messages.read(file, 0, _HEAD_BYTES, size)
            if not messages:
                return False
            try:
                _verify_schema_length(messages[0])
                self._schema = pa.ipc.read_schema(messages[0])
                self.info = _read_info(self._schema, self.name)
            except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
                raise invalid_message(error) from error
            self.offset = max(self.offset, ends[0])
            part = os.path.basename(os.path.dirname(os.path.dirname(self.path)))
            if part in _PARTS and part != self.info.kind:
                raise DamageError(f"is a segment of {self.info.kind}")
        return True

    def _read(self, file: FileIO, size: int, limit_bytes: int) -> Range | None:
        messages, ends = self._messages.read(file, self.offset, limit_bytes, size)
        while messages:
            try:
                batches = self._decode(messages, np.array(ends, np.int64))
            except DamageError:
                if len(messages) == 1:
                    raise
                messages = messages[: len(messages) // 2]  # keep the batches before the damage
                continue
            self.offset, self._last_sequence = int(batches.ends[-1]), int(batches.sequences[-1])
            return batches
        return None

    def _decode(self, messages: list[pa.Message], ends: Integers) -> Range:
        assert self.info is not None
        try:
            batches = [pa.ipc.read_record_batch(message, self._schema) for message in messages]
            for message, batch in zip(messages, batches, strict=True):
                batch.validate()
                _verify_length(message, batch)
            columns = batches[0].columns if len(batches) == 1 else _combined(batches)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise invalid_message(error) from error
        rows = np.array([batch.num_rows for batch in batches], np.int64)
        sequences = _verify(columns, rows, self._last_sequence)
        data = pa.Table.from_arrays(columns[2:], self._schema.names[2:])
        return Range(self.info, os.path.basename(self.path), data, sequences, rows, ends[: len(rows)], self.offset)


def _verify_schema_length(message: pa.Message) -> None:
    """Verify that the schema contains no other message, whose rows would be lost; none of its own fields is -1.

    Raises:
        DamageError: The length in the header of the message is wrong.
    """
    metadata = message.metadata
    if metadata.size % _ALIGNMENT or -1 in np.frombuffer(metadata, "<i4")[:: _ALIGNMENT // 4]:
        raise DamageError("has a schema with a wrong length")


def _verify_length(message: pa.Message, batch: pa.RecordBatch) -> None:
    """Verify that nothing but padding follows the last column: the next batch begins there.

    Raises:
        DamageError: The length in the header of the message is wrong.
    """
    body, last = message.body, batch.column(batch.num_columns - 1).buffers()[-1]
    padding = body.address + body.size - last.address - last.size if last is not None else 0
    if padding >= _ALIGNMENT or body.size % _ALIGNMENT:
        raise DamageError("contains a batch with a wrong length")


def _combined(batches: list[pa.RecordBatch]) -> list[pa.Array]:
    return [column.chunk(0) for column in pa.Table.from_batches(batches).combine_chunks().columns]


def _read_info(schema: pa.Schema, path: str) -> SegmentInfo:
    """Return the metadata in a schema, validated against the format of this version.

    Raises:
        DamageError: The schema is not that of a segment, or the checksum of its metadata is wrong.
    """
    prefix = codec.METADATA_PREFIX
    fields = {
        key.decode()[len(prefix) :]: value.decode()
        for key, value in (schema.metadata or {}).items()
        if key.decode().startswith(prefix)
    }
    if fields.get("crc32") != str(codec.metadata_checksum(fields)):
        raise DamageError("has metadata with a wrong checksum")
    if fields["format"] != str(codec.FORMAT):
        raise DamageError(f"has format {fields['format']}; this version of leadline reads format {codec.FORMAT}")
    kind = fields["kind"]
    layout = codec.parse_series_metadata(fields) if kind == "series" else None
    if not schema.equals(_expected_schema(kind, len(layout.columns) if layout else 0)):
        raise DamageError(f"does not have the columns of a {kind} segment")
    channels = codec.parse_system_metadata(fields) if kind == "system" else ()
    return SegmentInfo(kind, path, layout, channels)


def _expected_schema(kind: str, width: int) -> pa.Schema:
    types = {"int64": pa.int64(), "float64": pa.float64(), "utf8": pa.string()}
    types["float64[]"] = pa.list_(pa.float64(), width)
    columns = codec.SERIES_COLUMNS if kind == "series" else _SCHEMAS.get(kind, ())
    stamp = [("sequence", pa.int64()), ("crc32", pa.int64())]
    return pa.schema(stamp + [(name, types[dtype]) for name, dtype in columns])


def _verify(columns: list[pa.Array], rows: Integers, last_sequence: int) -> Integers:
    """Verify the order and the checksum of each batch; return the sequence numbers of the batches.

    Raises:
        DamageError: A batch is damaged.
    """
    if not rows.all():
        raise DamageError("contains an empty batch")
    if any(column.null_count for column in columns):
        raise DamageError("contains a batch with null values")
    edges = np.concatenate([[0], np.cumsum(rows)])
    sequence, crc = (column.to_numpy() for column in columns[:2])
    sequences: Integers = sequence[edges[:-1]]
    checksums = [zlib.crc32(number.tobytes()) for number in sequences.astype("<i8")]
    for data, places in _buffers(columns[2:], rows, edges):
        cuts = places.tolist()
        checksums = [
            zlib.crc32(data[start:end], checksum)
            for checksum, start, end in zip(checksums, cuts[:-1], cuts[1:], strict=True)
        ]
    expected = np.repeat([sequences, np.array(checksums, np.int64)], rows, axis=1)
    if not np.array_equal([sequence, crc], expected):
        raise DamageError("contains a batch with a wrong checksum")
    if sequences[0] <= last_sequence or np.any(sequences[1:] <= sequences[:-1]):
        raise DamageError("contains a batch out of order")
    return sequences


def _buffers(columns: list[pa.Array], rows: Integers, edges: Integers) -> Iterator[tuple[memoryview, Integers]]:
    """Yield the buffers of the columns as they were written batch by batch, with the edges of the batches."""
    batches = np.repeat(np.arange(len(rows)), rows + 1)
    offset_rows = np.arange(len(batches)) - batches  # the texts of a batch have one offset more than rows
    for column in columns:
        if pa.types.is_fixed_size_list(column.type):
            values = column.flatten().to_numpy(zero_copy_only=False)
            yield values.view(np.uint8).data, edges * 8 * column.type.list_size
        elif pa.types.is_string(column.type):
            _, offsets, text = column.buffers()
            starts = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
            relative = starts[offset_rows] - starts[edges[batches]]
            yield relative.view(np.uint8).data, 4 * (edges + np.arange(len(edges)))
            yield memoryview(text if text is not None else b""), starts[edges].astype(np.int64)
        else:
            yield column.to_numpy().view(np.uint8).data, edges * 8
