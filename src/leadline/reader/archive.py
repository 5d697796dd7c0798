"""Everything that was read of a run so far, kept so that questions can be answered."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from leadline.reader.feed import CLOCK
from leadline.reader.segments import Batch, SegmentInfo
from leadline.reader.stream import StreamTail
from leadline.reader.tensors import StoredTensor, TensorFolder
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import layout

_PARTS = (layout.SERIES, layout.TIMELINE, layout.SYSTEM)


@dataclass(slots=True)
class Shelf:
    """The batches of one layout of one worker."""

    worker: str
    layout: SeriesLayout
    batches: list[Batch] = field(default_factory=list)

    def columns_of(self, tensor: str) -> dict[str, int]:
        """Columns of a tensor, by statistic."""
        return {
            statistic: column for column, (index, statistic) in enumerate(self.layout.columns)
            if self.layout.tensors[index].name == tensor
        }  # fmt: skip


class Archive:
    """What was read of a run's streams.

    Attributes:
        shelves: Series, by worker and layout.
        timeline, system: Batches by worker or node.
        stored: Tensors that were stored whole, by name.
        vectors: Statistics that are arrays, by tensor and statistic.
        complete_step: The last global step that is whole, for each worker; -1 before the first.
    """

    def __init__(self, run: str) -> None:
        self.shelves: dict[tuple[str, SeriesLayout], Shelf] = {}
        self.timeline: dict[str, list[Batch]] = {}
        self.system: dict[str, list[Batch]] = {}
        self.stored: dict[str, list[StoredTensor]] = {}
        self.vectors: dict[tuple[str, str], list[StoredTensor]] = {}
        self.complete_step: dict[str, int] = {}
        self._run = run
        self._shelf_of: dict[int, tuple[SegmentInfo, Shelf]] = {}
        self._streams: dict[tuple[str, str], StreamTail] = {}
        self._folders: dict[str, TensorFolder] = {}

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read, with its path and offset."""
        lines = [line for stream in self._streams.values() for line in stream.damage]
        return [*lines, *(line for folder in self._folders.values() for line in folder.damage)]

    def refresh(self, *, is_over: bool, gone: Collection[str]) -> None:
        """Read what came; the arguments are those of ``Feed.refresh``."""
        for part in _PARTS:
            for name in _names(os.path.join(self._run, part)):
                stream = self._streams.setdefault((part, name), StreamTail(self._run, part, name))
                is_finished = is_over or (part != layout.SYSTEM and name in gone)
                for batch in stream.read_new(is_finished=is_finished):
                    self._keep(part, name, batch)
        for worker in _names(os.path.join(self._run, layout.TENSORS)):
            for each in self._folders.setdefault(worker, TensorFolder(self._run, worker)).read_new():
                vector = layout.parse_vector_name(each.name)
                if vector is None:
                    self.stored.setdefault(each.name, []).append(each)
                else:
                    self.vectors.setdefault(vector, []).append(each)

    def infos(self) -> dict[str, TensorInfo]:
        """What is known of each tensor, in the order in which they appeared; all that it is said to be of counts."""
        infos: dict[str, TensorInfo] = {}
        for _, kept in self.shelves:
            for info in kept.tensors:
                known = infos.setdefault(info.name, info)
                if known.collections != info.collections:
                    both = dict.fromkeys((*known.collections, *info.collections))
                    infos[info.name] = replace(known, collections=tuple(both))
        infos.pop(CLOCK, None)
        return infos

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
            kept = self.timeline if part == layout.TIMELINE else self.system
            kept.setdefault(name, []).append(batch)
            return
        self._shelf(name, batch.segment).batches.append(batch)
        whole = int(np.asarray(batch.columns["complete_step"])[-1])
        self.complete_step[name] = max(whole, self.complete_step.get(name, -1))

    def _shelf(self, worker: str, segment: SegmentInfo) -> Shelf:
        if id(segment) not in self._shelf_of:
            assert segment.layout is not None
            shelf = self.shelves.setdefault((worker, segment.layout), Shelf(worker, segment.layout))
            self._shelf_of[id(segment)] = (segment, shelf)
        return self._shelf_of[id(segment)][1]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
