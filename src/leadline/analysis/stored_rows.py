"""Stored rows of a run: compacted files followed by the newest batches."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from leadline.analysis.segment_rows import SegmentRows, Source
from leadline.reader.compacted import Part, PartChain, compact_folders, streams_of
from leadline.reader.incarnations import read_replacements
from leadline.reader.rollups import SECOND_NS, Columns, Key, RollupSchema
from leadline.reader.segments import Range
from leadline.reader.stream import BulkStream
from leadline.reader.window import natural_sort_key
from leadline.records.names import MODES
from leadline.store import layout

if TYPE_CHECKING:
    import numpy.typing as npt


Tail = TypeVar("Tail", bound=SegmentRows)


class Stream(Generic[Tail]):
    """One stream of a run: its compacted files, then the batches after them.

    Args:
        read_tail: Returns the rows of batches.

    Attributes:
        ranges: The batches after the compacted files.
        is_waiting: Whether the uncompacted part is too large to be read and waits for compaction.
        version: Changes whenever there is new data.
    """

    def __init__(self, run: str, schema: RollupSchema, name: str, read_tail: Callable[[Stream[Tail]], Tail]) -> None:
        self.name, self.schema = name, schema
        self.ranges: list[Range] = []
        self.is_waiting = False
        self.version = 0
        self._run, self._read_tail = run, read_tail
        self._tail: tuple[int, Tail] | None = None
        self._keys: tuple[int, dict[Key, None]] | None = None
        self._chain = PartChain(_compact_folder(run), schema, name)
        self._cuts = read_replacements(run).of(name)
        self._reading = BulkStream(run, schema.part, name)

    @property
    def parts(self) -> list[Part]:
        """The compacted files."""
        return self._chain.parts

    @property
    def tail(self) -> Tail:
        """The rows after the compacted files."""
        if self._tail is None or self._tail[0] != self.version:
            self._tail = (self.version, self._read_tail(self))
        return self._tail[1]

    @property
    def damage(self) -> list[str]:
        """One line for each segment that could not be read."""
        return self._reading.damage

    @property
    def latest_ns(self) -> int | None:
        """The time of the latest row."""
        ends = [self.tail.latest_ns, *(part.metadata["end_ns"] for part in self.parts)]
        return max((end_ns for end_ns in ends if end_ns is not None), default=None)

    def share(self) -> tuple[int, int]:
        """Return the number of bytes that were read or compacted, and the total number of bytes."""
        total = self._reading.all_bytes
        return total - self._reading.left_bytes, total

    def refresh(self, max_bytes: int | None) -> None:
        """Read new data.

        Args:
            max_bytes: The maximum size of the uncompacted part that is read.
        """
        if not self._chain.parts and (folder := _compact_folder(self._run)) != self._chain.place:
            self._chain = PartChain(folder, self.schema, self.name)
        cuts = read_replacements(self._run).of(self.name)
        if self._chain.refresh() or cuts != self._cuts:
            self._cuts = cuts
            self._restart()
        left = self._reading.left_bytes
        self.is_waiting = max_bytes is not None and left > max_bytes
        if left and not self.is_waiting:
            new = self._reading.read(left)
            self.ranges += new
            self.version += bool(new)

    def forget(self, path: str) -> None:
        """Ignore and delete a damaged compacted file, so that it is rebuilt."""
        self._chain.forget(path)
        with suppress(OSError):
            os.unlink(path)
        self._restart()

    def _restart(self) -> None:
        """Read the segments from the end of the compacted files on."""
        self._reading = BulkStream(self._run, self.schema.part, self.name, self._chain.position)
        self.ranges = []
        self.version += 1

    @property
    def keys(self) -> Mapping[Key, object]:
        """All keys."""
        if self._keys is None or self._keys[0] != self.version:
            keys = dict.fromkeys([*(key for part in self.parts for key in part.keys), *self.tail.keys])
            self._keys = (self.version, keys)
        return self._keys[1]

    def bounds(self, key: Key) -> tuple[int, int]:
        """Return the first and the last value of a key's axis."""
        bounds = [part.bounds[key] for part in self.parts if key in part.bounds]
        tail = self.tail.bounds(key)
        bounds += [tail] if tail is not None else []
        return min(first for first, _ in bounds), max(last for _, last in bounds)

    def buckets(self, keys: Sequence[Key], width: int, low: int | None = None, high: int | None = None) -> Columns:
        """Return the buckets of a width with ``low <= axis < high``, sorted by key and bucket.

        Args:
            keys: The keys; the column ``key`` of the result is the index in this list.
            low, high: Multiples of ``width``.
        """
        level = self.schema.width if width % self.schema.width == 0 else 0
        sources: list[Source] = [*self.parts, self.tail]
        order = sorted(range(len(keys)), key=lambda place: keys[place])  # as in the files, so that nothing is sorted
        in_order = [keys[place] for place in order]
        parts = [self.schema.in_buckets(source.read(in_order, level, low, high), width) for source in sources]
        rows = self.schema.joined(parts)
        return self.schema.in_buckets({**rows, "key": np.array(order)[rows["key"]]}, width)

    def columns(
        self, keys: Sequence[Key], name: str, low: int | None = None, high: int | None = None
    ) -> list[npt.NDArray[Any]]:
        """Return one stored column of the single rows of each key.

        Args:
            keys: In ascending order, as the rows of compacted files.
        """
        parts = [*(part.read(keys, 0, low, high, [name]) for part in self.parts), self.tail.read(keys, 0, low, high)]
        pieces = [_split(rows["key"], rows[name], len(keys)) for rows in parts]
        return [np.concatenate(of_key) for of_key in zip(*pieces, strict=True)]


def _split(keys: npt.NDArray[Any], values: npt.NDArray[Any], count: int) -> list[npt.NDArray[Any]]:
    """Return the values of each key, in their order."""
    if bool(np.any(np.diff(keys) < 0)):
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
    return np.split(values, np.searchsorted(keys, np.arange(1, count)))


def _compact_folder(run: str) -> str:
    """Return the folder with the compacted data of a run."""
    existing = [folder for folder in compact_folders(run) if os.path.isdir(os.path.join(folder, layout.COMPACT))]
    return existing[0] if existing else run


class StoredRows(Generic[Tail]):
    """All rows of one kind in a run.

    Attributes:
        streams: The streams by worker or node, in natural order.
    """

    def __init__(self, run: str, schema: RollupSchema, read_tail: Callable[[Stream[Tail]], Tail]) -> None:
        self._run, self._schema, self._read_tail = run, schema, read_tail
        self.streams: dict[str, Stream[Tail]] = {}

    def refresh(self, max_bytes: int | None) -> None:
        """Read new data and new streams."""
        new = set(streams_of(self._run, self._schema.part)) - self.streams.keys()
        if new:
            added = {name: Stream(self._run, self._schema, name, self._read_tail) for name in new}
            self.streams = dict(sorted({**self.streams, **added}.items(), key=lambda item: natural_sort_key(item[0])))
        for stream in self.streams.values():
            stream.refresh(max_bytes)

    @property
    def version(self) -> int:
        """Changes whenever there is new data."""
        return sum(stream.version for stream in self.streams.values()) + len(self.streams)

    @property
    def latest_ns(self) -> int | None:
        """The time of the latest row."""
        ends = [stream.latest_ns for stream in self.streams.values()]
        return max((end_ns for end_ns in ends if end_ns is not None), default=None)


Series = tuple[str, Key]
"""A worker and a key."""
Edges = tuple[int, int]
"""The first and the last step."""


class StoredSteppedRows(StoredRows[Tail], ABC):
    """All rows of one kind that belong to steps; the last name of a key is the mode.

    Attributes:
        table_schema: The columns of buckets.
    """

    table_schema: ClassVar[pa.Schema]

    def series(self, names: Key = (), worker: str | None = None, mode: str | None = None) -> list[Series]:
        """Return the series whose key consists of some names and a mode, by worker and mode."""
        return [
            (of_worker, (*names, of_mode))
            for of_worker, stream in self.streams.items()
            for of_mode in MODES
            if (*names, of_mode) in stream.keys and worker in (None, of_worker) and mode in (None, of_mode)
        ]

    def bounds(self, series: Series) -> Edges:
        """Return the first and the last step."""
        return self.streams[series[0]].bounds(series[1])

    def rows(self, series: Series, width: int, low: int | None = None, high: int | None = None) -> Columns:
        """Return the buckets of a width with ``low <= step < high``; of the width 1, single steps."""
        return self.streams[series[0]].buckets([series[1]], width, low, high)

    def buckets(
        self, edges: Mapping[Series, Edges | None], points: int, place: Callable[[Series, pa.Table], pa.Table]
    ) -> pa.Table:
        """Return at most ``points`` buckets of each series, all of the same width.

        Args:
            place: Places the buckets of a series on the axis.
        """
        chosen = {series: bounds for series, bounds in edges.items() if bounds is not None}
        if not chosen:
            return self.table_schema.empty_table()
        width, tables = common_width(chosen.values(), points), []
        for (worker, key), (first, last) in chosen.items():
            low, high = first // width * width, (last // width + 1) * width
            table = self._table(worker, key, self.rows((worker, key), width, low, high))
            tables.append(place((worker, key), table))
        return pa.concat_tables(tables).combine_chunks()

    @abstractmethod
    def _table(self, worker: str, key: Key, buckets: Columns) -> pa.Table:
        """Return the buckets of one series as ``table_schema``."""


def common_width(edges: Collection[Edges], points: int) -> int:
    """Return the width of buckets that divides all intervals of steps into at most ``points``."""
    return bucket_width(max(last for _, last in edges) - min(first for first, _ in edges) + 1, points)


def bucket_width(span: int, points: int) -> int:
    """Return the narrowest width of the ladder 1, 2, 3, 4, 6, 8, 12 … that divides an interval into ``points`` buckets.

    Args:
        span: The length of the interval; it may start anywhere on the grid.
        points: The maximum number of buckets, at least 2.
    """
    min_width = -(-max(span, 1) // max(points - 1, 1))  # one bucket more if neither end is on the grid
    width = 1
    while width < min_width:
        width *= 2
    between = width // 4 * 3
    return between if width > 2 and between >= min_width else width


def bucket_width_ns(span_ns: int, points: int) -> int:
    """Return the bucket width of a time interval: whole seconds of the ladder, or fractions of a second."""
    min_width = -(-max(span_ns, 1) // max(points - 1, 1))
    if min_width > SECOND_NS // 2:
        return bucket_width(-(-span_ns // SECOND_NS), points) * SECOND_NS
    return next(fraction for fraction in _FRACTIONS_NS if fraction >= min_width)


_FRACTIONS_NS: Final = tuple(
    unit * factor for unit in (1, 1_000, 1_000_000) for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500)
)
