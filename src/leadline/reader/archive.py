"""In-memory archive of the records of a run."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from leadline.reader.feed import CLOCK
from leadline.reader.incarnations import read_replacements
from leadline.reader.segments import Range, SegmentInfo, SegmentTail
from leadline.reader.step_axis import StepAxis, stamps_of
from leadline.reader.stream import StreamTail
from leadline.reader.tensors import StoredTensor, TensorIndex
from leadline.records.series import SeriesLayout, TensorInfo, merged_infos
from leadline.store import layout
from leadline.store.folder_watch import names_in
from leadline.store.segments import row_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

_PARTS = (layout.SERIES, layout.TIMELINE, layout.SYSTEM)
LARGE_PART_BYTES = 64 << 20
"""Parts larger than this are read only when their rows are requested."""


@dataclass(slots=True)
class StreamArchive:
    """The series batches of one worker that share a layout."""

    worker: str
    layout: SeriesLayout
    batches: list[Range] = field(default_factory=list)

    def columns_of(self, tensor: str) -> dict[str, int]:
        """Return the columns of a tensor, by statistic."""
        return {
            statistic: column
            for column, (index, statistic) in enumerate(self.layout.columns)
            if self.layout.tensors[index].name == tensor
        }

    def info_of(self, tensor: str) -> TensorInfo:
        """Return the metadata of a tensor that it has."""
        return next(info for info in self.layout.tensors if info.name == tensor)


class Archive:
    """The streams of a run, each part read when it is first accessed.

    Args:
        parts: The parts to read; raw tensors and arrays are read only together with the series.
    """

    def __init__(self, run: str, parts: Collection[str] = _PARTS) -> None:
        self._run, self._parts = run, tuple(parts)
        self._is_over, self._gone = False, frozenset[str]()
        self._replacements = read_replacements(run)
        self._heads: dict[str, SeriesLayout] = {}
        self._clear()

    def _clear(self) -> None:
        """Forget everything that was read."""
        self._series: dict[tuple[str, SeriesLayout], StreamArchive] = {}
        self._timeline: dict[str, list[Range]] = {}
        self._system: dict[str, list[Range]] = {}
        self._stored: dict[str, list[StoredTensor]] = {}
        self._vectors: dict[tuple[str, str], list[StoredTensor]] = {}
        self._complete_step: dict[str, int] = {}
        self._axes: dict[str, StepAxis] = {}
        self._stored_at: dict[str, tuple[int, dict[tuple[str, int], list[StoredTensor]]]] = {}
        """By tensor: how many of its raw tensors are indexed, and the index by mode and step within it."""
        self._archive_of_segment: dict[int, tuple[SegmentInfo, StreamArchive]] = {}
        self._streams: dict[tuple[str, str], StreamTail] = {}
        self._folders: dict[str, TensorIndex] = {}
        self._stale = {*self._parts, *([layout.TENSORS] if layout.SERIES in self._parts else [])}

    @property
    def series(self) -> dict[tuple[str, SeriesLayout], StreamArchive]:
        """The series, by worker and layout."""
        self._read(layout.SERIES)
        return self._series

    @property
    def complete_step(self) -> dict[str, int]:
        """The last complete global step of each worker; -1 before the first."""
        self._read(layout.SERIES)
        return self._complete_step

    @property
    def timeline(self) -> dict[str, list[Range]]:
        """The batches of events, by worker."""
        self._read(layout.TIMELINE)
        return self._timeline

    @property
    def system(self) -> dict[str, list[Range]]:
        """The batches of samples, by node."""
        self._read(layout.SYSTEM)
        return self._system

    @property
    def stored(self) -> dict[str, list[StoredTensor]]:
        """The raw tensors, by name."""
        self._read(layout.TENSORS)
        return self._stored

    @property
    def vectors(self) -> dict[tuple[str, str], list[StoredTensor]]:
        """The statistics that are arrays, by tensor and statistic."""
        self._read(layout.TENSORS)
        return self._vectors

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read, with path and offset; large unread parts are not checked."""
        for part in (*self._parts, layout.TENSORS):
            if not self.is_deferred(part):
                self._read(part)
        lines = [line for stream in self._streams.values() for line in stream.damage]
        return [*lines, *(line for folder in self._folders.values() for line in folder.damage)]

    def read_all(self) -> None:
        """Read all parts now, regardless of their size."""
        for part in (*self._parts, layout.TENSORS):
            self._read(part)

    def refresh(self, *, is_over: bool, gone: Collection[str]) -> None:
        """Mark all parts as stale, so that new data is read on the next access; arguments as in ``Feed.refresh``.

        Once an incarnation begins to repeat steps, everything is read again, without what it replaces.
        """
        replacements = read_replacements(self._run)
        if replacements != self._replacements:
            self._replacements = replacements
            self._clear()
        self._is_over, self._gone = is_over, frozenset(gone)
        self._stale = {*self._parts, *([layout.TENSORS] if layout.SERIES in self._parts else [])}

    def _read(self, part: str) -> None:
        """Read the new batches of a part, once per refresh."""
        if part not in self._stale:
            return
        self._stale.discard(part)
        if part == layout.TENSORS:
            self._read_tensors()
            return
        for name in names_in(os.path.join(self._run, part)):
            stream = self._streams.setdefault((part, name), StreamTail(self._run, part, name))
            is_finished = self._is_over or (part != layout.SYSTEM and name in self._gone)
            for batches in stream.read_new(is_finished=is_finished):
                self._keep(part, name, batches)

    def _read_tensors(self) -> None:
        for worker in names_in(os.path.join(self._run, layout.TENSORS)):
            for stored in self._folders.setdefault(worker, TensorIndex(self._run, worker)).read_new():
                vector = layout.parse_vector_name(stored.name)
                if vector is None:
                    self._stored.setdefault(stored.name, []).append(stored)
                else:
                    self._vectors.setdefault(vector, []).append(stored)

    def infos(self) -> dict[str, TensorInfo]:
        """Return the metadata of each tensor, in order of appearance, with all collections recorded for it."""
        layouts = self._layouts() if self.is_deferred(layout.SERIES) else [shared for _, shared in self.series]
        infos = merged_infos(info for shared in layouts for info in shared.tensors)
        infos.pop(CLOCK, None)
        return infos

    def is_deferred(self, part: str) -> bool:
        """Return whether a part has not been read yet and is too large to be read implicitly."""
        if part not in self._stale or any(name == part for name, _ in self._streams):
            return False
        folder = os.path.join(self._run, part)
        streams = (os.path.join(folder, name) for name in names_in(folder))
        files = (os.path.join(stream, name) for stream in streams for name in names_in(stream))
        return part != layout.TENSORS and sum(map(_size, files)) > LARGE_PART_BYTES

    def _layouts(self) -> Iterator[SeriesLayout]:
        """Yield the layouts from the headers of all series segments, in the order of their creation."""
        for worker in names_in(os.path.join(self._run, layout.SERIES)):
            for name in names_in(os.path.join(self._run, layout.SERIES, worker)):
                path = os.path.join(self._run, layout.SERIES, worker, name)
                if path not in self._heads:
                    info = SegmentTail(path, f"{layout.SERIES}/{worker}/{name}").read_info()
                    if info is None or info.layout is None:
                        continue
                    self._heads[path] = info.layout
                yield self._heads[path]

    def stamp(self, worker: str, step: int) -> tuple[int, int] | None:
        """Return the step within the mode and the time of a worker's step; None if no row has it."""
        for (name, _), stream in self.series.items():
            for batches in stream.batches if name == worker else ():
                rows = np.flatnonzero(batches.numbers("step") == step)
                if rows.size:
                    return int(batches.numbers("mode_step")[rows[0]]), int(batches.numbers("time_ns")[rows[0]])
        return None

    def axis(self, worker: str) -> StepAxis:
        """Return the train steps of a worker."""
        series = self.series
        if worker not in self._axes:
            ranges = (batches for (name, _), stream in series.items() if name == worker for batches in stream.batches)
            self._axes[worker] = StepAxis(stamps_of(ranges))
        return self._axes[worker]

    def step_of(self, tensor: StoredTensor) -> int:
        """Return the step of a stored tensor within its mode."""
        return self.axis(tensor.worker).mode_step(tensor.step, tensor.mode)

    def rows_at(
        self, name: str, step: int, worker: str | None, mode: str
    ) -> Iterator[tuple[StreamArchive, dict[str, int], npt.NDArray[np.float64]]]:
        """Yield each row of a tensor at a step of a mode: its stream, the columns by statistic, and its values."""
        for stream in self.series.values():
            columns = stream.columns_of(name)
            if not columns or worker not in (None, stream.worker):
                continue
            for batches in stream.batches:
                for row in np.flatnonzero(batches.numbers("mode_step") == step):
                    if batches.table["mode"][int(row)].as_py() == mode:
                        yield stream, columns, batches.numbers("values")[row]

    def stored_at(self, name: str, step: int, mode: str) -> list[StoredTensor]:
        """Return the raw tensors that were stored of a tensor at a step of a mode."""
        _, stored = self.series, self.stored.get(name, [])  # new rows may change the steps within a mode
        count, index = self._stored_at.get(name, (-1, {}))
        if count != len(stored):
            index = {}
            for tensor in stored:
                index.setdefault((tensor.mode, self.step_of(tensor)), []).append(tensor)
            self._stored_at[name] = (len(stored), index)
        return index.get((mode, step), [])

    def points(self) -> Iterator[tuple[int, str]]:
        """Yield the steps and modes at which something was captured, with repetitions."""
        for stream in self.series.values():
            if all(info.name == CLOCK for info in stream.layout.tensors):
                continue
            for batches in stream.batches:
                yield from zip(batches.numbers("mode_step").tolist(), batches.texts("mode"), strict=True)
        for tensors in (*self.stored.values(), *self.vectors.values()):
            yield from ((self.step_of(tensor), tensor.mode) for tensor in tensors)

    def names_at(self, step: int | None, mode: str) -> set[str]:
        """Return the names of the tensors that were captured at a step of a mode; None: at any of its steps."""
        found: set[str] = set()
        for stream in self.series.values():
            if any(_has_row(batches, step, mode) for batches in stream.batches):
                found.update(info.name for info in stream.layout.tensors)
        named = [*self.stored.items(), *((name, stored) for (name, _), stored in self.vectors.items())]
        for name, stored in named:
            if any(tensor.mode == mode and step in (None, self.step_of(tensor)) for tensor in stored):
                found.add(name)
        return found

    def _keep(self, part: str, name: str, batches: Range) -> None:
        if part != layout.SERIES:
            streams = self._timeline if part == layout.TIMELINE else self._system
            streams.setdefault(name, []).append(batches)
            return
        self._axes.pop(name, None)
        self._stored_at.clear()
        self._stream_archive(name, batches.info).batches.append(batches)
        complete = int(np.max(batches.numbers("complete_step")))
        self._complete_step[name] = max(complete, self._complete_step.get(name, -1))

    def _stream_archive(self, worker: str, segment: SegmentInfo) -> StreamArchive:
        if id(segment) not in self._archive_of_segment:
            assert segment.layout is not None
            archive = self._series.setdefault((worker, segment.layout), StreamArchive(worker, segment.layout))
            self._archive_of_segment[id(segment)] = (segment, archive)
        return self._archive_of_segment[id(segment)][1]


def _has_row(batches: Range, step: int | None, mode: str) -> bool:
    steps = batches.numbers("mode_step")
    return any(known == mode and step in (None, at) for known, at in zip(batches.texts("mode"), steps, strict=True))


def _size(path: str) -> int:
    try:
        return row_bytes(path, os.lstat(path).st_size)
    except OSError:
        return 0
