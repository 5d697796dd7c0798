"""Compacted files of a run: Parquet, sorted by key and time or step, with a roll-up."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from leadline.reader.rollups import Columns, Key, RollupSchema, select
from leadline.reader.tables import TIMELINE
from leadline.store import layout
from leadline.store.run_files import opened_path, subfolders

if TYPE_CHECKING:
    import numpy.typing as npt

FORMAT: Final = 4
"""The version of the compacted files; files of other versions are rebuilt."""
METADATA: Final = b"leadline.compact"
CHECKSUM: Final = b"leadline.crc32"
LARGE_BYTES: Final = 32 << 20
"""Runs with more uncompacted data than this are worth compacting."""
EVENTS: Final = -1
"""The ``width`` of timeline rows outside of steps."""
EVENT_COLUMNS: Final = tuple(TIMELINE.names[1:])


def parquet_schema(schema: RollupSchema) -> pa.Schema:
    """Return the columns of the files: ``width`` is that of the bucket, 0 for a single row."""
    fields = [(name, pa.int64()) for name in ("width", "key", *schema.integers)]
    fields += [(name, pa.float64()) for name in schema.floats]
    events = TIMELINE if schema.part == layout.TIMELINE else ()
    return pa.schema([*fields, *(field for field in events if field.name in _ONLY_EVENTS)])


_ONLY_EVENTS: Final = ("name", "phase", "thread", "args")


class DamagedPartError(Exception):
    """A compacted file cannot be read; it is ignored and rebuilt."""


class Part:
    """One compacted file, open, so that it can be read even after it was merged into another.

    Attributes:
        first, last: The compaction passes that it covers.
        metadata: The metadata written with it: ``position`` (the end of the covered data in each segment) …
        keys: The number of each key.
        bounds: The first and the last value of the axis of each key that has rows.
    """

    def __init__(self, path: str, first: int, last: int, schema: RollupSchema) -> None:
        self.path = path
        self.first = first
        self.last = last
        self.modified_ns = _modified_ns(path)
        self._schema = schema
        try:
            self._open()
        except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise DamagedPartError(path) from error  # a footer has no checksum and fails in many ways

    def _open(self) -> None:
        with opened_path(self.path) as opened:
            self._file = pq.ParquetFile(opened, memory_map=False, page_checksum_verification=True)
        stored = self._file.metadata.metadata or {}
        encoded = stored[METADATA]
        if stored[CHECKSUM] != str(zlib.crc32(encoded)).encode():
            raise ValueError("the metadata has a wrong checksum")
        self.metadata: dict[str, Any] = json.loads(encoded)
        if self.metadata["format"] != FORMAT or self._file.schema_arrow != parquet_schema(self._schema):
            raise ValueError("the file has another format")
        keys = self.metadata.pop("keys")
        self.keys: dict[Key, int] = {tuple(key): number for number, (key, _, _) in enumerate(keys)}
        self.bounds: dict[Key, tuple[int, int]] = {
            tuple(key): (first, last) for key, first, last in keys if first is not None
        }
        self._statistics = _statistics(self._file, ("width", "key", self._schema.axis))

    def release(self) -> None:
        """Close the file and keep ``metadata`` only; for a file that will not be read, since it takes some MB."""
        self._file.close()
        del self._file, self._statistics, self.keys, self.bounds

    def __len__(self) -> int:
        rows: int = self._file.metadata.num_rows
        return rows

    def read(
        self,
        keys: Sequence[Key],
        width: int = 0,
        low: int | None = None,
        high: int | None = None,
        columns: Sequence[str] = (),
    ) -> Columns:
        """Read single rows or the roll-up of some keys with ``low <= axis < high``.

        Args:
            keys: The keys; the column ``key`` of the result is the index in this list.
            width: 0 or that of the roll-up.
            columns: By default all that are stored.
        Raises:
            DamagedPartError: The file cannot be read.
        """
        index = np.full(len(self.keys), -1)
        for place, key in enumerate(keys):
            if key in self.keys:
                index[self.keys[key]] = place
        chosen, axis = np.flatnonzero(index >= 0), self._schema.axis
        if not len(chosen):
            return self._schema.empty()
        names = columns or (self._schema.columns if width else self._schema.row_columns)
        is_whole = low is None and high is None
        table = self._table(width, chosen, low, high, ["key", *names, *(() if is_whole else [axis])])
        rows: Columns = {name: table[name].to_numpy() for name in table.column_names}
        rows["key"] = index[rows["key"]]
        keep = rows["key"] >= 0
        if not is_whole:
            keep &= between(rows[axis], low, high)
        return rows if keep.all() else select(rows, keep)

    def events(self) -> pa.Table:
        """Return the timeline rows outside of steps, without the worker.

        Raises:
            DamagedPartError: The file cannot be read.
        """
        return self._table(EVENTS, np.array([EVENTS]), None, None, EVENT_COLUMNS).select(EVENT_COLUMNS)

    def _table(
        self, width: int, keys: npt.NDArray[Any], low: int | None, high: int | None, columns: Sequence[str]
    ) -> pa.Table:
        """Return the row groups that contain any of some keys, in ascending order, and overlap a range of the axis."""
        (widths, _), (first_key, last_key), (first, last) = self._statistics
        has_key = np.searchsorted(keys, first_key) < np.searchsorted(keys, last_key, side="right")
        keep = (widths == width) & has_key
        if low is not None:
            keep &= last >= low
        if high is not None:
            keep &= first < high
        names = list(dict.fromkeys(columns))
        try:
            return self._file.read_row_groups(np.flatnonzero(keep).tolist(), columns=names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise DamagedPartError(self.path) from error


def _statistics(file: pq.ParquetFile, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return minimum and maximum of columns in each row group, ``(columns, 2, row groups)``."""
    metadata, places = file.metadata, [file.schema_arrow.get_field_index(name) for name in columns]
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    found = [[group.column(place).statistics for group in groups] for place in places]
    return np.array([[[item.min for item in items], [item.max for item in items]] for items in found], np.int64)


def between(values: npt.NDArray[Any], low: int | None, high: int | None) -> npt.NDArray[np.bool_]:
    """Return a mask of the values with ``low <= value < high``; None means unbounded."""
    keep = np.ones(len(values), bool)
    if low is not None:
        keep &= values >= low
    if high is not None:
        keep &= values < high
    return keep


class PartChain:
    """The consecutive compacted files of a stream from the first pass on; files after a gap are ignored.

    Args:
        reads_merged: Whether files of several passes are read; otherwise they have ``metadata`` only.
    """

    def __init__(self, place: str, schema: RollupSchema, stream: str, *, reads_merged: bool = True) -> None:
        self.parts: list[Part] = []
        self.place, self._schema, self._stream = place, schema, stream
        self._reads_merged = reads_merged
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
        files = [(*file, _modified_ns(file[2])) for file in self._files()]
        if files == self._seen:
            return False
        self._seen = files
        known = {(part.path, part.modified_ns): part for part in self.parts}
        before, self.parts = list(known), []
        for first, last, path, modified_ns in files:
            if first == self.next_pass and (path, modified_ns) not in self._bad:
                part = known.get((path, modified_ns))
                try:
                    self.parts.append(self._open(path, first, last) if part is None else part)
                except DamagedPartError:
                    self._bad.add((path, modified_ns))
        return before != [(part.path, part.modified_ns) for part in self.parts]

    def forget(self, path: str) -> None:
        """Ignore a damaged file and those after it."""
        self._bad.add((path, _modified_ns(path)))
        self._seen = []
        self.refresh()

    def _open(self, path: str, first: int, last: int) -> Part:
        part = Part(path, first, last, self._schema)
        if first != last and not self._reads_merged:
            part.release()
        return part

    def _files(self) -> list[tuple[int, int, str]]:
        """Return first pass, last pass and path of the files, by first pass, the widest first."""
        folder = os.path.join(self.place, layout.COMPACT, self._schema.part, self._stream)
        try:
            named = [(layout.parse_compact_part(name), name) for name in os.listdir(folder)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        files = [(passes[0], passes[1], os.path.join(folder, name)) for passes, name in named if passes]
        return sorted(files, key=lambda file: (file[0], -file[1]))


def compact_folders(run: str) -> list[str]:
    """Return the folders that may contain the compacted data: the run, or the user's cache if the run is read-only."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(os.path.realpath(run).encode()).hexdigest()[:24]
    return [run, os.path.join(cache, "leadline", "runs", digest)]


def streams_of(run: str, part: str) -> list[str]:
    """Return the streams of a part of a run: its workers or nodes."""
    return subfolders(os.path.join(run, part))


def _modified_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except FileNotFoundError:
        return -1
