"""Stored scalars and statistics of a run: compacted files and the newest batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from leadline.analysis.digest_series import Values, joined_values
from leadline.analysis.rollup_schema import VALUES, values_of_columns
from leadline.analysis.streams import Stream, Streams
from leadline.reader.compact import ParquetPart
from leadline.reader.feed import CLOCK
from leadline.reader.window import natural_sort_key
from leadline.records.names import MODES
from leadline.records.series import SeriesLayout, TensorInfo

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]


class StoredValues:
    """All series of a run."""

    def __init__(self, run: str) -> None:
        self._streams = Streams(run, VALUES)
        self._tails: dict[str, tuple[int, list[_Block]]] = {}

    @property
    def streams(self) -> Streams:
        """The underlying streams."""
        return self._streams

    def infos(self) -> dict[str, TensorInfo]:
        """Return the metadata of each tensor, in the order of appearance."""
        infos: dict[str, TensorInfo] = {}
        for stream in self._ordered():
            compacted = [
                TensorInfo(name, tuple(collections), tuple(shape), dtype)
                for part in stream.parts
                for name, collections, shape, dtype in part.metadata["tensors"]
            ]
            for info in (*compacted, *(info for block in self._tail(stream) for info in block.layout.tensors)):
                known = infos.setdefault(info.name, info)
                if known.collections != info.collections:
                    both = tuple(dict.fromkeys((*known.collections, *info.collections)))
                    infos[info.name] = TensorInfo(info.name, both, known.shape, known.dtype)
        infos.pop(CLOCK, None)
        return infos

    def modes_of(self, statistic: str) -> dict[str, set[str]]:
        """Return the modes of each tensor that has a statistic."""
        modes: dict[str, set[str]] = {}
        for stream in self._streams.all.values():
            for part in stream.parts:
                for tensor, name, mode in part.keys:
                    if name == statistic:
                        modes.setdefault(tensor, set()).add(mode)
            for block in self._tail(stream):
                for index, name in block.layout.columns:
                    if name == statistic:
                        modes.setdefault(block.layout.tensors[index].name, set()).add(block.mode)
        modes.pop(CLOCK, None)
        return modes

    def captured(self) -> dict[str, dict[str, set[str]]]:
        """Return the workers that captured a statistic, by tensor and statistic."""
        workers: dict[str, dict[str, set[str]]] = {}
        for stream in self._ordered():
            keys = {key[:2] for part in stream.parts for key in part.keys}
            for block in self._tail(stream):
                keys |= {(block.layout.tensors[index].name, statistic) for index, statistic in block.layout.columns}
            for tensor, statistic in keys:
                workers.setdefault(tensor, {}).setdefault(statistic, set()).add(stream.name)
        workers.pop(CLOCK, None)
        return workers

    def series(self, tensor: str, statistic: str, mode: str | None, worker: str | None) -> list[tuple[str, str]]:
        """Return the workers and modes that have a statistic of a tensor."""
        series = []
        for stream in self._ordered():
            if worker not in (None, stream.name):
                continue
            modes = {key[2] for part in stream.parts for key in part.keys if key[:2] == (tensor, statistic)}
            modes |= {block.mode for block in self._tail(stream) if block.column(tensor, statistic) is not None}
            series += [
                (stream.name, mode_name) for mode_name in MODES if mode_name in modes and mode in (None, mode_name)
            ]
        return series

    def bounds(self, tensor: str, statistic: str, mode: str, worker: str) -> tuple[int, int]:
        """Return the first and the last step."""
        stream, key = self._streams.all[worker], (tensor, statistic, mode)
        ranges = [part.bounds(part.keys[key], VALUES.axis) for part in stream.parts if key in part.keys]
        for block in self._tail(stream):
            if block.mode == mode and block.column(tensor, statistic) is not None:
                ranges.append((int(block.step.min()), int(block.step.max())))
        return min(first for first, _ in ranges), max(last for _, last in ranges)

    def values(
        self,
        tensors: Sequence[str],
        statistic: str,
        mode: str,
        worker: str,
        width: int = 1,
        low: int | None = None,
        high: int | None = None,
    ) -> dict[str, Values]:
        """Return values of tensors, or buckets that can be merged to ``width``, with ``low <= step < high``."""
        stream = self._streams.all[worker]
        parts: dict[str, list[Values]] = {}
        for part in stream.parts:
            for tensor, values in _read_part(part, tensors, statistic, mode, worker, width, low, high):
                parts.setdefault(tensor, []).append(values)
        for block in self._tail(stream):
            for tensor in tensors if block.mode == mode else ():
                column = block.column(tensor, statistic)
                if column is not None:
                    parts.setdefault(tensor, []).append(block.values_of(column, worker))
        by_tensor = {tensor: _between(joined_values(values), low, high) for tensor, values in parts.items()}
        return {tensor: by_tensor[tensor] for tensor in tensors if tensor in by_tensor and len(by_tensor[tensor])}

    def latest_ns(self) -> int | None:
        """Return the time of the last row."""
        tails = [int(block.time_ns.max()) for stream in self._streams.all.values() for block in self._tail(stream)]
        return max([*tails, self._streams.latest_ns() or 0], default=None) or None

    def _ordered(self) -> list[Stream]:
        return sorted(self._streams.all.values(), key=lambda stream: natural_sort_key(stream.name))

    def _tail(self, stream: Stream) -> list[_Block]:
        entry = self._tails.get(stream.name)
        if entry is None or entry[0] != stream.version:
            entry = self._tails[stream.name] = (stream.version, list(_blocks(stream)))
        return entry[1]


class _Block:
    """The newest rows of one layout and mode."""

    def __init__(self, layout: SeriesLayout, mode: str, columns: Sequence[npt.NDArray[np.int64]]) -> None:
        self.layout, self.mode = layout, mode
        self.step, self.mode_step, self.time_ns, self._values = columns
        names = [tensor.name for tensor in layout.tensors]
        self._columns = {(names[index], statistic): column for column, (index, statistic) in enumerate(layout.columns)}

    def column(self, tensor: str, statistic: str) -> int | None:
        """Return the column of a statistic of a tensor."""
        return self._columns.get((tensor, statistic))

    def values_of(self, column: int, worker: str) -> Values:
        """Return the values of a column."""
        values = self._values[:, column].astype(np.float64)
        return Values.of_rows(worker, self.mode, self.step, self.mode_step, self.time_ns, values)


def _blocks(stream: Stream) -> Iterator[_Block]:
    by_layout: dict[tuple[SeriesLayout, str], list[tuple[npt.NDArray[np.int64], ...]]] = {}
    for batches in stream.tail:
        assert batches.info.layout is not None
        columns = tuple(batches.numbers(name) for name in ("step", "mode_step", "time_ns", "values"))
        for mode in pc.unique(batches.table["mode"]).to_pylist():
            keep = pc.equal(batches.table["mode"], mode).to_numpy()
            rows = columns if keep.all() else tuple(column[keep] for column in columns)
            by_layout.setdefault((batches.info.layout, mode), []).append(rows)
    for (shared, mode), groups in by_layout.items():
        yield _Block(
            shared,
            mode,
            [np.concatenate(pieces) if len(groups) > 1 else pieces[0] for pieces in zip(*groups, strict=True)],
        )


def _read_part(
    part: ParquetPart,
    tensors: Sequence[str],
    statistic: str,
    mode: str,
    worker: str,
    width: int,
    low: int | None,
    high: int | None,
) -> Iterator[tuple[str, Values]]:
    names = {part.keys[key]: key[0] for name in tensors if (key := (name, statistic, mode)) in part.keys}
    by_level: dict[int, list[int]] = {}
    for number in names:
        by_level.setdefault(part.level(number, width), []).append(number)
    for level, numbers in by_level.items():
        column_names = VALUES.schema.names if level else VALUES.row_columns
        begin = low // level * level if low is not None and level else low
        keys, columns = part.read(level, numbers, column_names, axis=VALUES.axis, low=begin, high=high)
        edges = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
        for start, end in pairwise(edges):
            if end > start:
                rows = {name: column[start:end] for name, column in columns.items()}
                yield names[int(keys[start])], values_of_columns(worker, mode, rows if level else VALUES.fill(rows))


def _between(rows: Values, low: int | None, high: int | None) -> Values:
    if low is None and high is None:
        return rows
    keep = np.ones(len(rows), bool)
    if low is not None:
        keep &= rows.step >= low
    if high is not None:
        keep &= rows.step < high
    return rows if keep.all() else rows.where(keep)
