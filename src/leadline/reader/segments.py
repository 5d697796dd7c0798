"""Reading one Arrow segment as it grows: whole batches that prove themselves; a torn tail is not there yet."""

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
_MOST_METADATA_BYTES: Final = 256 << 20
_MOST_BODY_BYTES: Final = 1 << 31
_SCHEMAS: Final = {"system": codec.SYSTEM.columns, "timeline": codec.TIMELINE.columns}


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What a segment's metadata say of its rows."""

    kind: str
    """``series``, ``timeline`` or ``system``."""
    path: str
    layout: SeriesLayout | None = None
    """Of a series."""
    channels: tuple[Channel, ...] = ()
    """Of system metrics."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a segment, whole and checked."""

    sequence: int
    rows: int
    columns: Mapping[str, Column]
    """Integers and floats as arrays ``(rows,)``, a series' ``values`` as ``(rows, width)``, texts as lists."""
    segment: SegmentInfo


class DamageError(Exception):
    """The segment cannot be read from here on."""


class SegmentTail:
    """One segment, read from a kept offset.

    Attributes:
        info: What the schema said; None until it is there.
        damage: Why reading stopped for good, with path and offset; None where it did not.
        torn_at: The offset of a batch that is begun and not whole; None where the last one is whole.
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
        """The whole batches that came since the last call; only ``stat`` is called when nothing did."""
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
            raise DamageError("is shorter than what was read of it")
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
            raise DamageError(f"holds what is no Arrow message: {str(error).splitlines()[0]}") from error
        return self._check(batch)

    def _check(self, batch: pa.RecordBatch) -> Batch | None:
        if batch.num_rows == 0:
            return None
        if any(column.null_count for column in batch.columns):
            raise DamageError("holds a batch with empty cells")
        sequence, rows = batch.column(0)[0].as_py(), batch.num_rows
        for column, expected in ((0, sequence), (1, checksum_of(batch, sequence))):
            if not bool(np.all(_int64(batch.column(column)) == expected)):
                raise DamageError("holds a batch whose checksum does not match")
        if sequence <= self._last_sequence:
            raise DamageError(f"holds batch {sequence} out of place")
        self._last_sequence = sequence
        assert self.info is not None
        return Batch(sequence, rows, {name: _column(batch, name) for name in batch.schema.names[2:]}, self.info)


def message_end(data: bytes, start: int) -> int | None:
    """Where the message that begins at ``start`` ends; None where its head is not whole.

    Raises:
        DamageError: No message begins there.
    """
    if len(data) - start < _PREFIX_BYTES:
        return None
    mark, length = struct.unpack_from("<Ii", data, start)
    if mark != _CONTINUATION or not 0 < length <= _MOST_METADATA_BYTES:
        raise DamageError("holds no message where one must begin")
    metadata = start + _PREFIX_BYTES
    if len(data) - metadata < length:
        return None
    body = _body_bytes(data[metadata : metadata + length])
    return int(metadata + length + body)


def _body_bytes(metadata: bytes) -> int:
    """The body's length from a Message flatbuffer: field 3 of its root table (Arrow's ``Message.fbs``)."""
    try:
        root = int(struct.unpack_from("<I", metadata, 0)[0])
        table = root - int(struct.unpack_from("<i", metadata, root)[0])
        if table < 0 or struct.unpack_from("<H", metadata, table)[0] <= 10:
            return 0
        field = int(struct.unpack_from("<H", metadata, table + 10)[0])
        body = int(struct.unpack_from("<q", metadata, root + field)[0]) if field else 0
    except struct.error as error:
        raise DamageError("holds a message whose head is broken") from error
    if not 0 <= body <= _MOST_BODY_BYTES:
        raise DamageError("holds a message whose head is broken")
    return body


def read_segment_info(schema: pa.Schema, path: str) -> SegmentInfo:
    """What a schema says, checked against what this version writes.

    Raises:
        DamageError: It is no segment's schema, or its metadata do not match their checksum.
    """
    prefix = codec.METADATA_PREFIX
    spoken = {
        key.decode()[len(prefix) :]: value.decode()
        for key, value in (schema.metadata or {}).items()
        if key.decode().startswith(prefix)
    }
    if spoken.get("crc32") != str(codec.metadata_checksum(spoken)):
        raise DamageError("has metadata whose checksum does not match")
    if spoken["format"] != str(codec.FORMAT):
        raise DamageError(f"is of format {spoken['format']}; this version of leadline reads {codec.FORMAT}")
    kind = spoken["kind"]
    layout = codec.parse_series_metadata(spoken) if kind == "series" else None
    if not schema.equals(_expected_schema(kind, len(layout.columns) if layout else 0)):
        raise DamageError(f"has not the columns of a {kind} segment")
    channels = codec.parse_system_metadata(spoken) if kind == "system" else ()
    return SegmentInfo(kind, path, layout, channels)


def _expected_schema(kind: str, width: int) -> pa.Schema:
    types = {"int64": pa.int64(), "float64": pa.float64(), "utf8": pa.string()}
    types["float64[]"] = pa.list_(pa.float64(), width)
    columns = codec.SERIES_COLUMNS if kind == "series" else _SCHEMAS.get(kind, ())
    stamp = [("sequence", pa.int64()), ("crc32", pa.int64())]
    return pa.schema(stamp + [(name, types[each]) for name, each in columns])


def checksum_of(batch: pa.RecordBatch, sequence: int) -> int:
    """The checksum that a batch must bear, from its data as it was read."""
    buffers: list[codec.Buffer] = []
    for column in batch.columns[2:]:
        if pa.types.is_fixed_size_list(column.type):
            buffers.append(_float64(column.flatten()).view(np.uint8).data)
        elif pa.types.is_string(column.type):
            _, offsets, data = column.buffers()
            wanted = 4 * (len(column) + 1)
            view = memoryview(offsets)[:wanted]
            length = struct.unpack_from("<i", view, wanted - 4)[0]
            buffers += [view, memoryview(data)[:length] if data is not None else b""]
        else:
            buffers.append(memoryview(column.buffers()[1])[: 8 * len(column)])
    return codec.checksum(sequence, buffers)


def _column(batch: pa.RecordBatch, name: str) -> Column:
    column = batch.column(name)
    if pa.types.is_fixed_size_list(column.type):
        return _float64(column.flatten()).reshape(batch.num_rows, column.type.list_size)
    if pa.types.is_string(column.type):
        told = column.dictionary_encode()  # few different texts: each is held once
        words: list[str] = told.dictionary.to_pylist()
        return [words[each] for each in told.indices.to_pylist()]
    return np.asarray(column.to_numpy())


def _int64(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _float64(column: pa.Array) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
