"""Compacted data of a run: sorted Parquet files derived from its segments."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leadline.store import layout

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

FORMAT: Final = 1
"""The version of the compacted files; files of other versions are rebuilt."""
METADATA: Final = b"leadline.compact"
CHECKSUM: Final = b"leadline.crc32"
LARGE_BYTES: Final = 32 << 20
"""Runs with more uncompacted data than this are worth compacting."""

Columns = dict[str, "npt.NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class RowRange:
    """Consecutive rows of one key at one bucket width, in ascending order."""

    width: int
    """The bucket width; 0 for the original rows."""
    key: int
    start: int
    rows: int


class DamagedPartError(Exception):
    """A compacted file cannot be read; it is ignored and rebuilt."""


class ParquetPart:
    """One compacted file.

    Attributes:
        first, last: The compaction passes that it covers.
        metadata: The metadata written with it: ``position`` (the end of the covered data in each segment) …
        keys: The number of each key.
    """

    def __init__(self, path: str, first: int, last: int, *, kept_groups: int = 0) -> None:
        """
        Args:
            kept_groups: The number of decoded row groups to cache, for readers that go through the keys in order.
        """
        self._kept: dict[tuple[int, tuple[str, ...]], pa.Table] = {}
        self._kept_groups = kept_groups
        self.path, self.first, self.last, self.modified_ns = path, first, last, _modified_ns(path)
        try:
            self._file = pq.ParquetFile(path, memory_map=False, page_checksum_verification=True)
            stored = self._file.metadata.metadata or {}
            encoded = stored.get(METADATA, b"{}")
            if stored.get(CHECKSUM) != str(zlib.crc32(encoded)).encode():
                raise DamagedPartError(path)
            self.metadata: dict[str, Any] = json.loads(encoded)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DamagedPartError(path) from error
        if self.metadata.get("format") != FORMAT:
            raise DamagedPartError(path)
        self._ranges = {
            (width, key): RowRange(width, key, start, rows) for width, key, start, rows in self.metadata["runs"]
        }
        self._levels: dict[int, list[int]] = {}
        for width, key in self._ranges:
            self._levels.setdefault(key, []).append(width)
        self.keys = {tuple(key): number for number, key in enumerate(self.metadata["keys"])}
        groups = self._file.metadata
        sizes = [groups.row_group(index).num_rows for index in range(groups.num_row_groups)]
        self._edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._bounds: dict[tuple[int, str], tuple[int, int]] = {}
        self._ends: dict[int, tuple[int, int]] = {}

    def ranges(self) -> Iterable[RowRange]:
        """Return the row ranges, in the order of the file."""
        return self._ranges.values()

    def number(self, key: Sequence[str]) -> int | None:
        """Return the number of a key; None if the file does not contain it."""
        return self.keys.get(tuple(key))

    def widths(self, key: int) -> list[int]:
        """Return the bucket widths that are stored for a key, in ascending order."""
        return sorted(width for width in self._levels.get(key, ()) if width)

    def level(self, key: int, width: int) -> int:
        """Return the coarsest stored bucket width of a key that divides ``width``; 0 if only its rows do."""
        return max((level for level in self._levels.get(key, ()) if level and width % level == 0), default=0)

    def bounds(self, key: int, axis: str) -> tuple[int, int]:
        """Return the first and the last value of a column that is ascending within a key."""
        if key not in self._ends:
            rows = self._ranges[0, key]
            first, last = (self.rows(0, key, at, [axis])[axis][0] for at in (0, rows.rows - 1))
            self._ends[key] = (int(first), int(last))
        return self._ends[key]

    def rows(self, width: int, key: int, at: int, columns: Sequence[str]) -> Columns:
        """Return one row of a key."""
        place = self._ranges[width, key].start + at
        group = int(np.searchsorted(self._edges, place, side="right")) - 1
        return self._cut([group], [(key, place - int(self._edges[group]), 1)], columns)[1]

    def read(
        self,
        width: int,
        keys: Sequence[int],
        columns: Sequence[str],
        *,
        axis: str | None = None,
        low: int | None = None,
        high: int | None = None,
    ) -> tuple[Integers, Columns]:
        """Read the rows of some keys.

        Args:
            axis: The column that is ascending within a key; only row groups that overlap ``low <= axis < high`` are
                read, so the result may contain rows outside the interval.
        Returns:
            The key of each row, and the columns.
        Raises:
            DamagedPartError: The file cannot be read.
        """
        ranges = [self._ranges[width, key] for key in keys if (width, key) in self._ranges]
        chosen: list[int] = []
        cuts: list[tuple[int, int, int]] = []
        base = 0
        for row_range in sorted(ranges, key=lambda row_range: row_range.start):
            for group in self._groups(row_range, axis, low, high):
                first, last = int(self._edges[group]), int(self._edges[group + 1])
                start, end = max(row_range.start, first), min(row_range.start + row_range.rows, last)
                if not chosen or chosen[-1] != group:
                    base += int(self._edges[chosen[-1] + 1] - self._edges[chosen[-1]]) if chosen else 0
                    chosen.append(group)
                cuts.append((row_range.key, start - first + base, end - start))
        return self._cut(chosen, cuts, columns)

    def _groups(self, row_range: RowRange, axis: str | None, low: int | None, high: int | None) -> Iterable[int]:
        first = int(np.searchsorted(self._edges, row_range.start, side="right")) - 1
        last = int(np.searchsorted(self._edges, row_range.start + row_range.rows, side="left")) - 1
        for group in range(first, last + 1):
            is_inside = (
                self._edges[group] >= row_range.start and self._edges[group + 1] <= row_range.start + row_range.rows
            )
            if axis is not None and is_inside:  # otherwise the statistics also cover other keys
                smallest, largest = self._bounds_of(group, axis)
                if (low is not None and largest < low) or (high is not None and smallest >= high):
                    continue
            yield group

    def _bounds_of(self, group: int, axis: str) -> tuple[int, int]:
        if (group, axis) not in self._bounds:
            place = self._file.schema_arrow.get_field_index(axis)
            statistics = self._file.metadata.row_group(group).column(place).statistics
            self._bounds[group, axis] = (int(statistics.min), int(statistics.max))
        return self._bounds[group, axis]

    def _cut(
        self, groups: list[int], cuts: list[tuple[int, int, int]], columns: Sequence[str]
    ) -> tuple[Integers, Columns]:
        if not cuts:
            return np.zeros(0, np.int64), {name: self._empty(name) for name in columns}
        try:
            table = self._decoded(groups, columns)
        except (pa.ArrowException, OSError) as error:
            raise DamagedPartError(self.path) from error
        return self._sliced(table, cuts, columns)

    def _empty(self, column: str) -> npt.NDArray[Any]:
        """Return an empty column of the right type, which keeps its type when concatenated."""
        return np.zeros(0, self._file.schema_arrow.field(column).type.to_pandas_dtype())

    def _decoded(self, groups: list[int], columns: Sequence[str]) -> pa.Table:
        key = (groups[0], tuple(columns))
        if len(groups) > 1 or not self._kept_groups:
            return self._file.read_row_groups(groups, columns=list(columns), use_threads=False)
        if key not in self._kept:
            while len(self._kept) >= self._kept_groups:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = self._file.read_row_groups(groups, columns=list(columns), use_threads=False)
        return self._kept[key]

    @staticmethod
    def _sliced(table: pa.Table, cuts: list[tuple[int, int, int]], columns: Sequence[str]) -> tuple[Integers, Columns]:
        keys = np.repeat(np.array([key for key, _, _ in cuts]), [rows for _, _, rows in cuts])
        result: Columns = {}
        for name in columns:
            column = table[name] if len(cuts) > 1 else table[name].slice(cuts[0][1], cuts[0][2])
            if column.null_count and pa.types.is_integer(column.type):  # nulls of other rows in the same row groups
                column = column.fill_null(0)
            whole = column.to_numpy()
            pieces = [whole[start : start + rows] for _, start, rows in cuts]
            result[name] = np.concatenate(pieces) if len(cuts) > 1 else whole
        return keys, result


def _modified_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return -1


class PartWriter:
    """Writer of a compacted file: row ranges in the order of width and key, small ones sharing a row group."""

    def __init__(self, path: str, schema: pa.Schema, delta: Iterable[str]) -> None:
        """
        Args:
            delta: Columns for delta encoding, whose neighboring values are close.
        """
        self._path, self._schema = path, schema
        self._temporary = f"{path}.{os.getpid()}.part"
        encoded = set(delta)
        self._writer = pq.ParquetWriter(
            self._temporary,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            column_encoding={name: "DELTA_BINARY_PACKED" if name in encoded else "PLAIN" for name in schema.names},
            write_statistics=sorted(encoded),
            write_page_checksum=True,
        )
        self._ranges: list[tuple[int, int, int, int]] = []
        self._width = 0
        self._pending: list[tuple[int, Mapping[str, Any]]] = []
        self._pending_rows = self._rows = 0

    def add(self, width: int, key: int, columns: Mapping[str, Any]) -> None:
        """Append a row range; missing columns are null."""
        rows = len(next(iter(columns.values())))
        if not rows:
            return
        if width != self._width:
            self._flush()  # a row group contains a single width
            self._width = width
        self._ranges.append((width, key, self._rows, rows))
        self._rows += rows
        if self._pending_rows + rows > GROUP_ROWS:
            self._flush()
        self._pending.append((rows, columns))
        self._pending_rows += rows
        if self._pending_rows >= GROUP_ROWS:
            self._flush()

    def close(self, metadata: Mapping[str, Any]) -> None:
        """Finish the file and move it into place."""
        self._flush()
        encoded = json.dumps({**metadata, "format": FORMAT, "runs": self._ranges}).encode()
        self._writer.add_key_value_metadata({METADATA: encoded, CHECKSUM: str(zlib.crc32(encoded)).encode()})
        self._writer.close()
        os.chmod(self._temporary, 0o600)
        os.replace(self._temporary, self._path)

    def abandon(self) -> None:
        """Delete the unfinished file."""
        self._writer.close()
        os.unlink(self._temporary)

    def _flush(self) -> None:
        if self._pending:
            table = pa.table([self._column(field) for field in self._schema], schema=self._schema)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            self._pending, self._pending_rows = [], 0

    def _column(self, field: pa.Field) -> pa.ChunkedArray:
        pieces: list[pa.Array] = []
        arrays: list[Any] = []
        for rows, columns in self._pending:
            if field.name in columns:
                arrays.append(columns[field.name])
                continue
            if arrays:
                pieces.append(_concatenated(arrays, field.type))
                arrays = []
            pieces.append(pa.nulls(rows, field.type))
        if arrays:
            pieces.append(_concatenated(arrays, field.type))
        return pa.chunked_array(pieces, field.type)


def _concatenated(columns: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.concat_arrays([column.combine_chunks() for column in columns])
    return pa.array(np.concatenate(columns), kind)


GROUP_ROWS: Final = 1 << 15


def compact_folders(run: str) -> list[str]:
    """Return the folders that may contain the compacted data: the run, or the user's cache if the run is read-only."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(os.path.realpath(run).encode()).hexdigest()[:24]
    return [run, os.path.join(cache, "leadline", "runs", digest)]


def streams_of(run: str, part: str) -> list[str]:
    """Return the streams of a part of a run: its workers or nodes."""
    try:
        return sorted(entry.name for entry in os.scandir(os.path.join(run, part)) if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def part_files(place: str, part: str, stream: str) -> list[tuple[int, int, str]]:
    """Return the first pass, last pass and path of the compacted files of a stream, by first pass, the widest first."""
    folder = os.path.join(place, layout.COMPACT, part, stream)
    try:
        named = [(layout.parse_compact_part(name), name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    files = [(passes[0], passes[1], os.path.join(folder, name)) for passes, name in named if passes]
    return sorted(files, key=lambda file: (file[0], -file[1]))


def encode_table(table: pa.Table) -> str:
    """Encode a small table as text, for the metadata of a compacted file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def decode_table(text: str) -> pa.Table:
    """Decode the result of ``encode_table``."""
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()


class PartChain:
    """The consecutive compacted files of a stream from the first pass on; files after a gap are ignored."""

    def __init__(self, place: str, part: str, stream: str) -> None:
        self.parts: list[ParquetPart] = []
        self.place, self._part, self._stream = place, part, stream
        self._seen: list[tuple[int, int, str, int]] = []
        self._bad: set[tuple[str, int]] = set()

    @property
    def position(self) -> dict[str, int]:
        """The end of the covered data in each segment."""
        return dict(self.parts[-1].metadata["position"]) if self.parts else {}

    @property
    def next_pass(self) -> int:
        """The number of the next compaction pass."""
        return self.parts[-1].last + 1 if self.parts else 1

    def refresh(self) -> bool:
        """Look for new files; return whether the files changed."""
        files = [(*file, _modified_ns(file[2])) for file in part_files(self.place, self._part, self._stream)]
        if files == self._seen:
            return False
        self._seen = files
        known = {(part.path, part.modified_ns): part for part in self.parts}
        before, self.parts = list(known), []
        for first, last, path, modified_ns in files:
            if first == self.next_pass and (path, modified_ns) not in self._bad:
                try:
                    self.parts.append(known.get((path, modified_ns)) or ParquetPart(path, first, last))
                except DamagedPartError:
                    self._bad.add((path, modified_ns))
        return before != [(part.path, part.modified_ns) for part in self.parts]

    def forget(self, path: str) -> None:
        """Ignore a damaged file and those after it."""
        self._bad.add((path, _modified_ns(path)))
        self._seen = []
        self.refresh()
