"""Incremental reader of an Arrow segment; incomplete batches at the end are not returned."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leadline.records.metric import Channel
from leadline.records.series import SeriesLayout
from leadline.store import codec

Column = npt.NDArray[Any] | list[str]

_CONTINUATION: Final = 0xFFFFFFFF
_PREFIX_BYTES: Final = 8
_MAX_METADATA_BYTES: Final = 256 << 20
_MAX_BODY_BYTES: Final = 1 << 31
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
class Batch:
    """A complete and verified batch of rows of a segment."""

    sequence: int
    rows: int
    columns: Mapping[str, Column]
    """Numbers as arrays ``(rows,)``, the ``values`` of a series as ``(rows, width)``, strings as lists."""
    segment: SegmentInfo


class DamageError(Exception):
    """The segment cannot be read beyond this point."""


class SegmentTail:
    """Incremental reader of a segment.

    Attributes:
        info: The metadata from the schema; None until the schema is complete.
        damage: The reason why reading stopped, with path and offset; None if the segment is intact.
        torn_at: The offset of an incomplete batch at the end; None if the last batch is complete.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self.info: SegmentInfo | None = None
        self.damage: str | None = None
        self.torn_at: int | None = None
        self.offset = 0
        self._schema: pa.Schema | None = None
        self._size = 0
        self._last_sequence = -1

    def read_new(self) -> list[Batch]:
        """Return the batches completed since the last call; an unchanged segment costs a single ``stat``."""
        batches: list[Batch] = []
        if self.damage is not None:
            return batches
        try:
            self._collect(batches)
        except FileNotFoundError:
            return batches
        except DamageError as error:
            self.damage = f"{self.name}: {error} (at byte {self.offset})"
        except OSError as error:
            self.damage = f"{self.name}: cannot be read: {error.strerror or error} (at byte {self.offset})"
        return batches

    def _collect(self, batches: list[Batch]) -> None:
        size = os.stat(self.path).st_size
        if size == self._size:
            return
        if size < self.offset:
            raise DamageError("was truncated")
        data, position, self.torn_at = self._read_tail(size), 0, None
        start, self._size = self.offset, self.offset + len(data)
        while position < len(data):
            end = message_end(data, position)
            if end is None or end > len(data):
                self.torn_at = self.offset
                return
            batch = self._decode(memoryview(data)[position:end])
            position = end
            self.offset = start + position
            if batch is not None:
                batches.append(batch)

    def _read_tail(self, size: int) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts, offset = [], self.offset
            while offset < size:
                part = os.pread(descriptor, size - offset, offset)
                if not part:
                    break
                parts.append(part)
                offset += len(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def _decode(self, message: memoryview) -> Batch | None:
        try:
            parsed = pa.ipc.read_message(pa.BufferReader(pa.py_buffer(message)))
            if self._schema is None:
                schema = pa.ipc.read_schema(parsed)
                self.info = read_segment_info(schema, self.name)
                self._schema = schema
                return None
            batch = pa.ipc.read_record_batch(parsed, self._schema)
            batch.validate()
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            raise DamageError(f"contains an invalid Arrow message: {str(error).splitlines()[0]}") from error
        return self._verify(batch)

    def _verify(self, batch: pa.RecordBatch) -> Batch | None:
        if batch.num_rows == 0:
            return None
        if any(column.null_count for column in batch.columns):
            raise DamageError("contains a batch with null values")
        sequence, rows = batch.column(0)[0].as_py(), batch.num_rows
        for column, expected in ((0, sequence), (1, checksum_of(batch, sequence))):
            if not bool(np.all(_int64(batch.column(column)) == expected)):
                raise DamageError("contains a batch with a wrong checksum")
        if sequence <= self._last_sequence:
            raise DamageError(f"contains batch {sequence} out of order")
        self._last_sequence = sequence
        assert self.info is not None
        return Batch(sequence, rows, {name: _column(batch, name) for name in batch.schema.names[2:]}, self.info)


def message_end(data: bytes, start: int) -> int | None:
    """Return the end of the message that begins at ``start``; None if its header is incomplete.

    Raises:
        DamageError: No message begins at ``start``.
    """
    if len(data) - start < _PREFIX_BYTES:
        return None
    mark, length = struct.unpack_from("<Ii", data, start)
    if mark != _CONTINUATION or not 0 < length <= _MAX_METADATA_BYTES:
        raise DamageError("contains no message at the expected offset")
    metadata = start + _PREFIX_BYTES
    if len(data) - metadata < length:
        return None
    body = _body_bytes(data[metadata : metadata + length])
    return int(metadata + length + body)


def _body_bytes(metadata: bytes) -> int:
    """Return the length of the body, field 3 of the root table of the Message flatbuffer (Arrow's ``Message.fbs``)."""
    try:
        root = int(struct.unpack_from("<I", metadata, 0)[0])
        table = root - int(struct.unpack_from("<i", metadata, root)[0])
        if table < 0 or struct.unpack_from("<H", metadata, table)[0] <= 10:
            return 0
        field = int(struct.unpack_from("<H", metadata, table + 10)[0])
        body = int(struct.unpack_from("<q", metadata, root + field)[0]) if field else 0
    except struct.error as error:
        raise DamageError("contains a message with a damaged header") from error
    if not 0 <= body <= _MAX_BODY_BYTES:
        raise DamageError("contains a message with a damaged header")
    return body


def read_segment_info(schema: pa.Schema, path: str) -> SegmentInfo:
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


def checksum_of(batch: pa.RecordBatch, sequence: int) -> int:
    """Compute the expected checksum of a batch from its data."""
    buffers: list[codec.Buffer] = []
    for column in batch.columns[2:]:
        if pa.types.is_fixed_size_list(column.type):
            buffers.append(_float64(column.flatten()).view(np.uint8).data)
        elif pa.types.is_string(column.type):
            _, offsets, data = column.buffers()
            size = 4 * (len(column) + 1)
            view = memoryview(offsets)[:size]
            length = struct.unpack_from("<i", view, size - 4)[0]
            buffers += [view, memoryview(data)[:length] if data is not None else b""]
        else:
            buffers.append(memoryview(column.buffers()[1])[: 8 * len(column)])
    return codec.checksum(sequence, buffers)


def _column(batch: pa.RecordBatch, name: str) -> Column:
    column = batch.column(name)
    if pa.types.is_fixed_size_list(column.type):
        return _float64(column.flatten()).reshape(batch.num_rows, column.type.list_size)
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()  # few distinct strings, each stored once
        texts: list[str] = encoded.dictionary.to_pylist()
        return [texts[index] for index in encoded.indices.to_pylist()]
    return np.asarray(column.to_numpy())


def _int64(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _float64(column: pa.Array) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
