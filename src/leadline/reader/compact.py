"""What compaction derived from a run's segments: sorted Parquet files, of which a question reads a few kilobytes."""

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
"""Of these files; what another version wrote is made anew."""
METADATA: Final = b"leadline.compact"
CHECKSUM: Final = b"leadline.crc32"
LARGE_BYTES: Final = 32 << 20
"""From how much on that is not compacted a run is worth it."""

Columns = dict[str, "npt.NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of one key at one width, which stand together, ascending."""

    width: int
    """Of the buckets; 0: the rows themselves."""
    key: int
    start: int
    rows: int


class DamagedPartError(Exception):
    """A derived file cannot be read; it is ignored and made anew."""


class ParquetPart:
    """One derived file.

    Attributes:
        first, last: In which goes it was made.
        said: What its maker says of it: ``position`` (up to where it goes in each segment) …
        keys: The numbers of its keys.
    """

    def __init__(self, path: str, first: int, last: int, *, kept_groups: int = 0) -> None:
        """
        Args:
            kept_groups: So many row groups stay decoded: for who reads key after key.
        """
        self._kept: dict[tuple[int, tuple[str, ...]], pa.Table] = {}
        self._kept_groups = kept_groups
        self.path, self.first, self.last, self.made_ns = path, first, last, _made_ns(path)
        try:
            self._file = pq.ParquetFile(path, memory_map=False, page_checksum_verification=True)
            metadata = self._file.metadata.metadata or {}
            spoken = metadata.get(METADATA, b"{}")
            if metadata.get(CHECKSUM) != str(zlib.crc32(spoken)).encode():
                raise DamagedPartError(path)
            self.said: dict[str, Any] = json.loads(spoken)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DamagedPartError(path) from error
        if self.said.get("format") != FORMAT:
            raise DamagedPartError(path)
        self._runs = {(width, key): Stretch(width, key, start, rows) for width, key, start, rows in self.said["runs"]}
        self._levels: dict[int, list[int]] = {}
        for width, key in self._runs:
            self._levels.setdefault(key, []).append(width)
        self.keys = {tuple(key): number for number, key in enumerate(self.said["keys"])}
        groups = self._file.metadata
        sizes = [groups.row_group(index).num_rows for index in range(groups.num_row_groups)]
        self._edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._bounds: dict[tuple[int, str], tuple[int, int]] = {}
        self._ends: dict[int, tuple[int, int]] = {}

    def runs(self) -> Iterable[Stretch]:
        """What stands in it, in the order of the file."""
        return self._runs.values()

    def number(self, key: Sequence[str]) -> int | None:
        """The number of a key; None: nothing of it is here."""
        return self.keys.get(tuple(key))

    def widths(self, key: int) -> list[int]:
        """The widths at which a key is told, without its rows."""
        return sorted(each for each in self._levels.get(key, ()) if each)

    def level(self, key: int, width: int) -> int:
        """The coarsest width at which a key is told that divides another; 0: only its rows do."""
        return max((each for each in self._levels.get(key, ()) if each and width % each == 0), default=0)

    def bounds(self, key: int, axis: str) -> tuple[int, int]:
        """The first and the last value of a column that ascends within a key."""
        if key not in self._ends:
            told = self._runs[0, key]
            first, last = (self.rows(0, key, at, [axis])[axis][0] for at in (0, told.rows - 1))
            self._ends[key] = (int(first), int(last))
        return self._ends[key]

    def rows(self, width: int, key: int, at: int, columns: Sequence[str]) -> Columns:
        """One row of a key."""
        place = self._runs[width, key].start + at
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
        """The rows of some keys.

        Args:
            axis: The column that ascends within a key; only row groups that have something in ``low <= axis < high``
                are read, so that there may be more beside.
        Returns:
            The key of each row, and the columns.
        Raises:
            DamagedPartError: The file cannot be read.
        """
        found = [self._runs[width, key] for key in keys if (width, key) in self._runs]
        chosen: list[int] = []
        cuts: list[tuple[int, int, int]] = []
        base = 0
        for each in sorted(found, key=lambda each: each.start):
            for group in self._groups(each, axis, low, high):
                first, last = int(self._edges[group]), int(self._edges[group + 1])
                start, end = max(each.start, first), min(each.start + each.rows, last)
                if not chosen or chosen[-1] != group:
                    base += int(self._edges[chosen[-1] + 1] - self._edges[chosen[-1]]) if chosen else 0
                    chosen.append(group)
                cuts.append((each.key, start - first + base, end - start))
        return self._cut(chosen, cuts, columns)

    def _groups(self, run: Stretch, axis: str | None, low: int | None, high: int | None) -> Iterable[int]:
        first = int(np.searchsorted(self._edges, run.start, side="right")) - 1
        last = int(np.searchsorted(self._edges, run.start + run.rows, side="left")) - 1
        for group in range(first, last + 1):
            is_inside = self._edges[group] >= run.start and self._edges[group + 1] <= run.start + run.rows
            if axis is not None and is_inside:  # elsewhere the bounds are not those of this key alone
                least, most = self._bounds_of(group, axis)
                if (low is not None and most < low) or (high is not None and least >= high):
                    continue
            yield group

    def _bounds_of(self, group: int, axis: str) -> tuple[int, int]:
        if (group, axis) not in self._bounds:
            place = self._file.schema_arrow.get_field_index(axis)
            told = self._file.metadata.row_group(group).column(place).statistics
            self._bounds[group, axis] = (int(told.min), int(told.max))
        return self._bounds[group, axis]

    def _cut(
        self, groups: list[int], cuts: list[tuple[int, int, int]], columns: Sequence[str]
    ) -> tuple[Integers, Columns]:
        if not cuts:
            return np.zeros(0, np.int64), {name: self._nothing(name) for name in columns}
        try:
            table = self._decoded(groups, columns)
        except (pa.ArrowException, OSError) as error:
            raise DamagedPartError(self.path) from error
        return self._sliced(table, cuts, columns)

    def _nothing(self, column: str) -> npt.NDArray[Any]:
        """No values, of the column's type: put together with others they must not change theirs."""
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
        told: Columns = {}
        for name in columns:
            column = table[name] if len(cuts) > 1 else table[name].slice(cuts[0][1], cuts[0][2])
            if column.null_count and pa.types.is_integer(column.type):  # of other rows in the same row groups
                column = column.fill_null(0)
            whole = column.to_numpy()
            pieces = [whole[start : start + rows] for _, start, rows in cuts]
            told[name] = np.concatenate(pieces) if len(cuts) > 1 else whole
        return keys, told


def _made_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return -1


class PartWriter:
    """Writes a derived file: runs of rows, in the order of width and key, small ones together in a row group."""

    def __init__(self, path: str, schema: pa.Schema, delta: Iterable[str]) -> None:
        """
        Args:
            delta: Columns whose values lie near each other.
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
        self._runs: list[tuple[int, int, int, int]] = []
        self._width = 0
        self._waiting: list[tuple[int, Mapping[str, Any]]] = []
        self._waiting_rows = self._rows = 0

    def add(self, width: int, key: int, columns: Mapping[str, Any]) -> None:
        """Append a run; columns that are not given are null."""
        rows = len(next(iter(columns.values())))
        if not rows:
            return
        if width != self._width:
            self._flush()  # a row group holds one width
            self._width = width
        self._runs.append((width, key, self._rows, rows))
        self._rows += rows
        if self._waiting_rows + rows > GROUP_ROWS:
            self._flush()
        self._waiting.append((rows, columns))
        self._waiting_rows += rows
        if self._waiting_rows >= GROUP_ROWS:
            self._flush()

    def close(self, said: Mapping[str, Any]) -> None:
        """Finish the file, and give it its name."""
        self._flush()
        spoken = json.dumps({**said, "format": FORMAT, "runs": self._runs}).encode()
        self._writer.add_key_value_metadata({METADATA: spoken, CHECKSUM: str(zlib.crc32(spoken)).encode()})
        self._writer.close()
        os.chmod(self._temporary, 0o600)
        os.replace(self._temporary, self._path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.close()
        os.unlink(self._temporary)

    def _flush(self) -> None:
        if self._waiting:
            table = pa.table([self._column(field) for field in self._schema], schema=self._schema)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            self._waiting, self._waiting_rows = [], 0

    def _column(self, field: pa.Field) -> pa.ChunkedArray:
        pieces: list[pa.Array] = []
        told: list[Any] = []
        for rows, columns in self._waiting:
            if field.name in columns:
                told.append(columns[field.name])
                continue
            if told:
                pieces.append(_joined(told, field.type))
                told = []
            pieces.append(pa.nulls(rows, field.type))
        if told:
            pieces.append(_joined(told, field.type))
        return pa.chunked_array(pieces, field.type)


def _joined(told: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.concat_arrays([each.combine_chunks() for each in told])
    return pa.array(np.concatenate(told), kind)


GROUP_ROWS: Final = 1 << 15


def compact_places(run: str) -> list[str]:
    """Where what was derived from a run may lie: in it, or in the user's cache where it cannot be written."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    told = hashlib.sha256(os.path.realpath(run).encode()).hexdigest()[:24]
    return [run, os.path.join(cache, "leadline", "runs", told)]


def streams_of(run: str, part: str) -> list[str]:
    """The streams of a part of a run: its workers or nodes."""
    try:
        return sorted(each.name for each in os.scandir(os.path.join(run, part)) if each.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def part_files(place: str, part: str, stream: str) -> list[tuple[int, int, str]]:
    """First and last go and path of the derived files of a stream, the widest first among those that begin alike."""
    folder = os.path.join(place, layout.COMPACT, part, stream)
    try:
        named = [(layout.parse_compact_part(name), name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [(goes[0], goes[1], os.path.join(folder, name)) for goes, name in named if goes]
    return sorted(found, key=lambda each: (each[0], -each[1]))


def packed(table: pa.Table) -> str:
    """A little table as text, to be said along."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def unpacked(text: str) -> pa.Table:
    """The inverse of ``packed``."""
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()


class PartChain:
    """The derived files of a stream that follow each other from the first go on; what follows a hole is ignored."""

    def __init__(self, place: str, part: str, stream: str) -> None:
        self.parts: list[ParquetPart] = []
        self.place, self._part, self._stream = place, part, stream
        self._seen: list[tuple[int, int, str, int]] = []
        self._bad: set[tuple[str, int]] = set()

    @property
    def position(self) -> dict[str, int]:
        """Up to where in each segment they go."""
        return dict(self.parts[-1].said["position"]) if self.parts else {}

    @property
    def next_go(self) -> int:
        """The number of the go that comes next."""
        return self.parts[-1].last + 1 if self.parts else 1

    def refresh(self) -> bool:
        """Look again; whether there are others now."""
        files = [(*each, _made_ns(each[2])) for each in part_files(self.place, self._part, self._stream)]
        if files == self._seen:
            return False
        self._seen = files
        known = {(each.path, each.made_ns): each for each in self.parts}
        before, self.parts = list(known), []
        for first, last, path, made_ns in files:
            if first == self.next_go and (path, made_ns) not in self._bad:
                try:
                    self.parts.append(known.get((path, made_ns)) or ParquetPart(path, first, last))
                except DamagedPartError:
                    self._bad.add((path, made_ns))
        return before != [(each.path, each.made_ns) for each in self.parts]

    def forget(self, path: str) -> None:
        """A file turned out to be damaged: it and those after it count no more."""
        self._bad.add((path, _made_ns(path)))
        self._seen = []
        self.refresh()
