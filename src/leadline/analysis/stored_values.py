"""Scalars and statistics of a run's workers, from derived files and from the newest batches."""

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
        """Where they come from."""
        return self._streams

    def infos(self) -> dict[str, TensorInfo]:
        """What is known of each tensor, in the order in which they appeared."""
        found: dict[str, TensorInfo] = {}
        for stream in self._ordered():
            told = [
                TensorInfo(name, tuple(collections), tuple(shape), dtype)
                for part in stream.parts
                for name, collections, shape, dtype in part.said["tensors"]
            ]
            for info in (*told, *(each for block in self._tail(stream) for each in block.layout.tensors)):
                known = found.setdefault(info.name, info)
                if known.collections != info.collections:
                    both = tuple(dict.fromkeys((*known.collections, *info.collections)))
                    found[info.name] = TensorInfo(info.name, both, known.shape, known.dtype)
        found.pop(CLOCK, None)
        return found

    def modes_of(self, statistic: str) -> dict[str, set[str]]:
        """The modes of each tensor that has a statistic."""
        found: dict[str, set[str]] = {}
        for stream in self._streams.all.values():
            for part in stream.parts:
                for tensor, each, mode in part.keys:
                    if each == statistic:
                        found.setdefault(tensor, set()).add(mode)
            for block in self._tail(stream):
                for index, each in block.layout.columns:
                    if each == statistic:
                        found.setdefault(block.layout.tensors[index].name, set()).add(block.mode)
        found.pop(CLOCK, None)
        return found

    def captured(self) -> dict[str, dict[str, set[str]]]:
        """The workers that have a statistic, by tensor and statistic."""
        found: dict[str, dict[str, set[str]]] = {}
        for stream in self._ordered():
            keys = {key[:2] for part in stream.parts for key in part.keys}
            for block in self._tail(stream):
                keys |= {(block.layout.tensors[index].name, each) for index, each in block.layout.columns}
            for tensor, statistic in keys:
                found.setdefault(tensor, {}).setdefault(statistic, set()).add(stream.name)
        found.pop(CLOCK, None)
        return found

    def series(self, tensor: str, statistic: str, mode: str | None, worker: str | None) -> list[tuple[str, str]]:
        """Workers and modes that have a statistic of a tensor."""
        found = []
        for stream in self._ordered():
            if worker not in (None, stream.name):
                continue
            modes = {key[2] for part in stream.parts for key in part.keys if key[:2] == (tensor, statistic)}
            modes |= {block.mode for block in self._tail(stream) if block.column(tensor, statistic) is not None}
            found += [(stream.name, each) for each in MODES if each in modes and mode in (None, each)]
        return found

    def bounds(self, tensor: str, statistic: str, mode: str, worker: str) -> tuple[int, int]:
        """The first and the last step."""
        stream, key = self._streams.all[worker], (tensor, statistic, mode)
        told = [part.bounds(part.keys[key], VALUES.axis) for part in stream.parts if key in part.keys]
        for block in self._tail(stream):
            if block.mode == mode and block.column(tensor, statistic) is not None:
                told.append((int(block.step.min()), int(block.step.max())))
        return min(first for first, _ in told), max(last for _, last in told)

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
        """Values of tensors, or buckets from which those of a width can be made, with ``low <= step < high``."""
        stream = self._streams.all[worker]
        found: dict[str, list[Values]] = {}
        for part in stream.parts:
            for tensor, each in _of_part(part, tensors, statistic, mode, worker, width, low, high):
                found.setdefault(tensor, []).append(each)
        for block in self._tail(stream):
            for tensor in tensors if block.mode == mode else ():
                column = block.column(tensor, statistic)
                if column is not None:
                    found.setdefault(tensor, []).append(block.values_of(column, worker))
        told = {tensor: _between(joined_values(each), low, high) for tensor, each in found.items()}
        return {tensor: told[tensor] for tensor in tensors if tensor in told and len(told[tensor])}

    def latest_ns(self) -> int | None:
        """The time of the last row."""
        tails = [int(each.time_ns.max()) for stream in self._streams.all.values() for each in self._tail(stream)]
        return max([*tails, self._streams.latest_ns() or 0], default=None) or None

    def _ordered(self) -> list[Stream]:
        return sorted(self._streams.all.values(), key=lambda each: natural_sort_key(each.name))

    def _tail(self, stream: Stream) -> list[_Block]:
        known = self._tails.get(stream.name)
        if known is None or known[0] != stream.version:
            known = self._tails[stream.name] = (stream.version, list(_blocks(stream)))
        return known[1]


class _Block:
    """The newest rows of one layout and mode."""

    def __init__(self, layout: SeriesLayout, mode: str, columns: Sequence[npt.NDArray[np.int64]]) -> None:
        self.layout, self.mode = layout, mode
        self.step, self.mode_step, self.time_ns, self._values = columns
        names = [each.name for each in layout.tensors]
        self._columns = {(names[index], statistic): at for at, (index, statistic) in enumerate(layout.columns)}

    def column(self, tensor: str, statistic: str) -> int | None:
        """The column of a statistic of a tensor."""
        return self._columns.get((tensor, statistic))

    def values_of(self, column: int, worker: str) -> Values:
        """The rows of a column."""
        values = self._values[:, column].astype(np.float64)
        return Values.of_rows(worker, self.mode, self.step, self.mode_step, self.time_ns, values)


def _blocks(stream: Stream) -> Iterator[_Block]:
    kinds: dict[tuple[SeriesLayout, str], list[tuple[npt.NDArray[np.int64], ...]]] = {}
    for each in stream.tail:
        assert each.info.layout is not None
        columns = tuple(each.numbers(name) for name in ("step", "mode_step", "time_ns", "values"))
        for mode in pc.unique(each.table["mode"]).to_pylist():
            keep = pc.equal(each.table["mode"], mode).to_numpy()
            rows = columns if keep.all() else tuple(one[keep] for one in columns)
            kinds.setdefault((each.info.layout, mode), []).append(rows)
    for (shared, mode), found in kinds.items():
        yield _Block(
            shared, mode, [np.concatenate(one) if len(found) > 1 else one[0] for one in zip(*found, strict=True)]
        )


def _of_part(
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
        wanted = VALUES.schema.names if level else VALUES.own
        begin = low // level * level if low is not None and level else low
        keys, columns = part.read(level, numbers, wanted, axis=VALUES.axis, low=begin, high=high)
        edges = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
        for start, end in pairwise(edges):
            if end > start:
                rows = {name: each[start:end] for name, each in columns.items()}
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
