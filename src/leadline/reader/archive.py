"""Everything that was read of a run so far, kept so that questions can be answered."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from leadline.reader.bulk import read_head
from leadline.reader.feed import CLOCK
from leadline.reader.segments import Batch, SegmentInfo
from leadline.reader.stream import StreamTail
from leadline.reader.tensors import StoredTensor, TensorIndex
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import layout

_PARTS = (layout.SERIES, layout.TIMELINE, layout.SYSTEM)
MUCH_BYTES = 64 << 20
"""From how much on a part of a run is read only by who asks for its rows."""


@dataclass(slots=True)
class StreamArchive:
    """The batches of one layout of one worker."""

    worker: str
    layout: SeriesLayout
    batches: list[Batch] = field(default_factory=list)

    def columns_of(self, tensor: str) -> dict[str, int]:
        """Columns of a tensor, by statistic."""
        return {
            statistic: column
            for column, (index, statistic) in enumerate(self.layout.columns)
            if self.layout.tensors[index].name == tensor
        }


class Archive:
    """What was read of a run's streams; a part is read when somebody first asks for something of it.

    Args:
        parts: What is read of it; raw tensors and arrays only with the series.
    """

    def __init__(self, run: str, parts: Collection[str] = _PARTS) -> None:
        self._shelves: dict[tuple[str, SeriesLayout], StreamArchive] = {}
        self._timeline: dict[str, list[Batch]] = {}
        self._system: dict[str, list[Batch]] = {}
        self._stored: dict[str, list[StoredTensor]] = {}
        self._vectors: dict[tuple[str, str], list[StoredTensor]] = {}
        self._complete_step: dict[str, int] = {}
        self._run, self._parts = run, tuple(parts)
        self._shelf_of: dict[int, tuple[SegmentInfo, StreamArchive]] = {}
        self._streams: dict[tuple[str, str], StreamTail] = {}
        self._folders: dict[str, TensorIndex] = {}
        self._heads: dict[str, SeriesLayout] = {}
        self._is_over, self._gone = False, frozenset[str]()
        self._stale = {*self._parts, *([layout.TENSORS] if layout.SERIES in self._parts else [])}

    @property
    def shelves(self) -> dict[tuple[str, SeriesLayout], StreamArchive]:
        """Series, by worker and layout."""
        self._read(layout.SERIES)
        return self._shelves

    @property
    def complete_step(self) -> dict[str, int]:
        """The last global step that is whole, for each worker; -1 before the first."""
        self._read(layout.SERIES)
        return self._complete_step

    @property
    def timeline(self) -> dict[str, list[Batch]]:
        """Batches of events by worker."""
        self._read(layout.TIMELINE)
        return self._timeline

    @property
    def system(self) -> dict[str, list[Batch]]:
        """Batches of samples by node."""
        self._read(layout.SYSTEM)
        return self._system

    @property
    def stored(self) -> dict[str, list[StoredTensor]]:
        """Tensors that were stored whole, by name."""
        self._read(layout.TENSORS)
        return self._stored

    @property
    def vectors(self) -> dict[tuple[str, str], list[StoredTensor]]:
        """Statistics that are arrays, by tensor and statistic."""
        self._read(layout.TENSORS)
        return self._vectors

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read, with its path and offset; of a large run, of what was read."""
        for part in (*self._parts, layout.TENSORS):
            if not self.is_too_much(part):
                self._read(part)
        lines = [line for stream in self._streams.values() for line in stream.damage]
        return [*lines, *(line for folder in self._folders.values() for line in folder.damage)]

    def read_all(self) -> None:
        """Read everything now, however much it is."""
        for part in (*self._parts, layout.TENSORS):
            self._read(part)

    def refresh(self, *, is_over: bool, gone: Collection[str]) -> None:
        """Take in what came, as soon as somebody asks; the arguments are those of ``Feed.refresh``."""
        self._is_over, self._gone = is_over, frozenset(gone)
        self._stale = {*self._parts, *([layout.TENSORS] if layout.SERIES in self._parts else [])}

    def _read(self, part: str) -> None:
        """Read what came of a part since the last refresh."""
        if part not in self._stale:
            return
        self._stale.discard(part)
        if part == layout.TENSORS:
            self._read_tensors()
            return
        for name in _names(os.path.join(self._run, part)):
            stream = self._streams.setdefault((part, name), StreamTail(self._run, part, name))
            is_finished = self._is_over or (part != layout.SYSTEM and name in self._gone)
            for batch in stream.read_new(is_finished=is_finished):
                self._keep(part, name, batch)

    def _read_tensors(self) -> None:
        for worker in _names(os.path.join(self._run, layout.TENSORS)):
            for each in self._folders.setdefault(worker, TensorIndex(self._run, worker)).read_new():
                vector = layout.parse_vector_name(each.name)
                if vector is None:
                    self._stored.setdefault(each.name, []).append(each)
                else:
                    self._vectors.setdefault(vector, []).append(each)

    def infos(self) -> dict[str, TensorInfo]:
        """What is known of each tensor, in the order in which they appeared; all that it is said to be of counts."""
        infos: dict[str, TensorInfo] = {}
        kinds = self._layouts() if self.is_too_much(layout.SERIES) else [kept for _, kept in self.shelves]
        for kept in kinds:
            for info in kept.tensors:
                known = infos.setdefault(info.name, info)
                if known.collections != info.collections:
                    both = dict.fromkeys((*known.collections, *info.collections))
                    infos[info.name] = replace(known, collections=tuple(both))
        infos.pop(CLOCK, None)
        return infos

    def is_too_much(self, part: str) -> bool:
        """Whether a part was not read yet, and is so large that nobody should have to wait for it by the way."""
        if part not in self._stale or any(name == part for name, _ in self._streams):
            return False
        folder = os.path.join(self._run, part)
        files = (os.path.join(folder, name, each) for name in _names(folder) for each in _names(f"{folder}/{name}"))
        return part != layout.TENSORS and sum(map(_size, files)) > MUCH_BYTES

    def _layouts(self) -> Iterator[SeriesLayout]:
        """What the heads of all series say, in the order in which they were begun."""
        for worker in _names(os.path.join(self._run, layout.SERIES)):
            for name in _names(os.path.join(self._run, layout.SERIES, worker)):
                path = os.path.join(self._run, layout.SERIES, worker, name)
                if path not in self._heads:
                    info = read_head(path, f"{layout.SERIES}/{worker}/{name}")
                    if info is None or info.layout is None:
                        continue
                    self._heads[path] = info.layout
                yield self._heads[path]

    def stamp(self, worker: str, step: int) -> tuple[int, int] | None:
        """The step within the mode, and the time, of a worker's step; None where no row tells."""
        for (name, _), shelf in self.shelves.items():
            for batch in shelf.batches if name == worker else ():
                rows = np.flatnonzero(np.asarray(batch.columns["step"]) == step)
                if rows.size:
                    mode_steps, times = (np.asarray(batch.columns[each]) for each in ("mode_step", "time_ns"))
                    return int(mode_steps[rows[0]]), int(times[rows[0]])
        return None

    def points(self) -> Iterator[tuple[int, str]]:
        """Steps and modes at which something was captured, with repetitions."""
        for shelf in self.shelves.values():
            if all(info.name == CLOCK for info in shelf.layout.tensors):
                continue
            for batch in shelf.batches:
                yield from zip(np.asarray(batch.columns["step"]).tolist(), batch.columns["mode"], strict=True)
        for tensors in (*self.stored.values(), *self.vectors.values()):
            yield from ((each.step, each.mode) for each in tensors)

    def _keep(self, part: str, name: str, batch: Batch) -> None:
        if part != layout.SERIES:
            kept = self._timeline if part == layout.TIMELINE else self._system
            kept.setdefault(name, []).append(batch)
            return
        self._shelf(name, batch.segment).batches.append(batch)
        whole = int(np.asarray(batch.columns["complete_step"])[-1])
        self._complete_step[name] = max(whole, self._complete_step.get(name, -1))

    def _shelf(self, worker: str, segment: SegmentInfo) -> StreamArchive:
        if id(segment) not in self._shelf_of:
            assert segment.layout is not None
            shelf = self._shelves.setdefault((worker, segment.layout), StreamArchive(worker, segment.layout))
            self._shelf_of[id(segment)] = (segment, shelf)
        return self._shelf_of[id(segment)][1]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
