"""Writing of compacted files: rows sorted by key and axis, then their roll-up."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leadline.analysis.segment_rows import Source
from leadline.reader.compacted import CHECKSUM, EVENTS, FORMAT, METADATA, Part, parquet_schema
from leadline.reader.rollups import STEPS, Columns, Key, RollupSchema, select
from leadline.store import layout
from leadline.store.documents import make_folder, replace_file

_GROUP_ROWS: Final = 1 << 15
_CHUNK_ROWS: Final = 4 * _GROUP_ROWS
"""About the number of rows that are sorted at a time."""


def write_part(
    folder: str,
    schema: RollupSchema,
    stream: str,
    passes: tuple[int, int],
    sources: Sequence[Source],
    metadata: Mapping[str, Any],
    events: pa.Table | None = None,
) -> None:
    """Write one compacted file and move it into place.

    Args:
        folder: The parent of ``compact``.
        passes: The first and last pass that the file covers.
        sources: The rows of segments, or compacted files.
        metadata: Must contain the ``position``.
        events: The timeline rows outside of steps, without the worker.
    """
    path = os.path.join(folder, layout.compact_part(schema.part, stream, *passes))
    make_folder(os.path.dirname(path))
    with replace_file(path) as file, _PartWriter(file, schema) as writer:
        if events is not None:
            writer.add_events(events)
        keys = sorted({key for source in sources for key in source.keys})
        bounds: dict[int, tuple[int, int]] = {}
        for rows in _chunks(schema, sources, keys, 0):
            writer.add(0, rows)
            bounds |= _bounds(rows["key"], rows[schema.axis])
        for rows in _chunks(schema, sources, keys, schema.width):
            writer.add(schema.width, rows)
        bounded = [[key, *bounds.get(number, (None, None))] for number, key in enumerate(keys)]
        writer.add_metadata({**metadata, "format": FORMAT, "keys": bounded})


def merge_parts(folder: str, schema: RollupSchema, stream: str, parts: Sequence[Part]) -> None:
    """Merge consecutive compacted files into one, and remove them."""
    events = pa.concat_tables([part.events() for part in parts]) if schema is STEPS else None
    metadata = _merged_metadata([part.metadata for part in parts])
    write_part(folder, schema, stream, (parts[0].first, parts[-1].last), parts, metadata, events)
    for part in parts:
        os.unlink(part.path)


def _merged_metadata(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metadata of a merged file: the last values, the whole time span, all marks and tensors."""
    merged = dict(parts[-1])
    merged["end_ns"] = max((part["end_ns"] for part in parts if part["end_ns"] is not None), default=None)
    if "steps" in merged:
        spans = [part["steps"] for part in parts if part["steps"]]
        merged["steps"] = [min(span[0] for span in spans), max(span[1] for span in spans)] if spans else None
        merged["marks"] = [mark for part in parts for mark in part["marks"]]
    if "tensors" in merged:
        merged["tensors"] = list({tensor[0]: tensor for part in reversed(parts) for tensor in part["tensors"]}.values())
    return merged


def _chunks(schema: RollupSchema, sources: Sequence[Source], keys: Sequence[Key], width: int) -> Iterator[Columns]:
    """Yield the single rows or the roll-up, sorted; the column ``key`` is the index in ``keys``."""
    size = max(1, _CHUNK_ROWS * len(keys) // max(sum(map(len, sources)), 1))
    for start in range(0, len(keys), size):
        chosen = keys[start : start + size]
        rows = schema.joined([source.read(chosen, width) for source in sources])
        rows = schema.in_buckets(rows, width) if width else _sorted(rows, schema.axis)
        yield {**rows, "key": rows["key"] + start}


def _sorted(rows: Columns, axis: str) -> Columns:
    key_steps, steps = np.diff(rows["key"]), np.diff(rows[axis])
    if bool(np.all((key_steps > 0) | ((key_steps == 0) & (steps >= 0)))):
        return rows
    return select(rows, np.lexsort((rows[axis], rows["key"])))


def _bounds(numbers: Any, axis: Any) -> dict[int, tuple[int, int]]:
    """Return the first and the last value of the axis of each key, of sorted rows."""
    unique, starts = np.unique(numbers, return_index=True)
    ends = np.append(starts[1:], len(numbers)) - 1
    edges = zip(axis[starts].tolist(), axis[ends].tolist(), strict=True)
    return dict(zip(unique.tolist(), edges, strict=True))


class _PartWriter:
    """Writer of Parquet with row groups of a single width, which small chunks share."""

    def __init__(self, file: IO[bytes], schema: RollupSchema) -> None:
        self._schema, self._columns = schema, parquet_schema(schema)
        encodings = {field.name: _encoding(field.type) for field in self._columns}
        self._writer = pq.ParquetWriter(
            file,
            self._columns,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            column_encoding=encodings,
            write_statistics=["width", "key", schema.axis],
            write_page_checksum=True,
        )
        self._pending: list[pa.Table] = []
        self._width = 0

    def __enter__(self) -> _PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, width: int, rows: Columns) -> None:
        """Append rows, which follow the ones before by width and key."""
        names = self._schema.columns if width else self._schema.row_columns
        stored = {name: rows[name] for name in ("key", *names)}
        self._add(width, len(rows["key"]), stored)

    def add_events(self, events: pa.Table) -> None:
        """Append timeline rows outside of steps."""
        stored = dict(zip(events.column_names, events.columns, strict=True))
        self._add(EVENTS, events.num_rows, {**stored, "key": np.full(events.num_rows, EVENTS)})

    def add_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Write the pending rows and the metadata."""
        self._flush()
        encoded = json.dumps(metadata).encode()
        self._writer.add_key_value_metadata({METADATA: encoded, CHECKSUM: str(zlib.crc32(encoded)).encode()})

    def _add(self, width: int, rows: int, columns: Mapping[str, Any]) -> None:
        if not rows:
            return
        if width != self._width or sum(table.num_rows for table in self._pending) >= _GROUP_ROWS:
            self._flush()
        stored = {"width": np.full(rows, width), **columns}
        absent = {field.name: pa.nulls(rows, field.type) for field in self._columns if field.name not in stored}
        table = pa.table({**stored, **absent}).select(self._columns.names).cast(self._columns)
        self._pending, self._width = [*self._pending, table], width

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.concat_tables(self._pending), row_group_size=_GROUP_ROWS)
            self._pending = []


def _encoding(kind: pa.DataType) -> str:
    return "DELTA_BINARY_PACKED" if pa.types.is_int64(kind) else "PLAIN"
