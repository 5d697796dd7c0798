"""The feeds of a run and of the runs that it is compared with: step by step, each after all workers have passed it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from leadline.reader import liveness
from leadline.reader.incarnations import Replacements, read_replacements
from leadline.reader.point import Point, SeriesRow
from leadline.reader.segments import Range
from leadline.reader.step_axis import StepPlacer
from leadline.reader.stream import SharedStreams
from leadline.reader.tensors import TensorIndex
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import View
from leadline.reader.window import TensorArray, Window
from leadline.records.event import TRAINING
from leadline.records.needs import TensorNeed
from leadline.store import layout
from leadline.store.folder_watch import names_in
from leadline.store.run_state import read_workers

_Position = tuple[int, str, int]

CLOCK: Final = "clock"
"""The tensor whose rows only record that steps pass."""
_DROPPED_EVENT: Final = "data_lost"
_UNKNOWN_MODE_STEP: Final = -1
"""Placeholder for the mode step of an eval step that is known from a tensor file only."""
MAX_STEP: Final = 1 << 62
"""A step that no run reaches."""


class Feed:
    """Follows a run for rules.

    Args:
        streams: The streams of the run, if several feeds read them.
        reader: The number of this feed among their readers.

    Attributes:
        grid: The time grid, for rules that are evaluated over time.
        judged_step: The last global step that was returned; -1 before the first.
        seen: The last known global step of each worker, and its time.
        has_late_data: Data arrived for a step that was already returned (from a worker that started late, or a
            tensor). Start over with a new feed to include it.
    """

    def __init__(
        self,
        run: str,
        grid: TimeGrid,
        *,
        with_arrays: bool = False,
        streams: SharedStreams | None = None,
        reader: int = 0,
    ) -> None:
        self.grid = grid
        self.judged_step = -1
        self.seen: dict[str, tuple[int, int]] = {}
        self.has_late_data = False
        self._run, self._with_arrays = run, with_arrays
        self._streams, self._reader = streams or SharedStreams(run), reader
        self._tensors: dict[str, TensorIndex] = {}
        self._complete: dict[str, int] = {}
        self._complete_before: dict[str, int] = {}
        self._points: dict[tuple[int, str, int], Point] = {}
        self._mode_steps: dict[tuple[int, str], int] = {}
        self._dropped_steps: set[int] = set()
        self._begins: dict[int, set[str]] = {}
        """The workers that begin another training, by its first step; of steps that were not returned yet."""
        self._replacements: Replacements | None = None
        self._axis = StepPlacer()

    @property
    def damage(self) -> list[str]:
        """One line for each part of the run that could not be read."""
        return [
            *self._streams.damage,
            *(line for folder in self._tensors.values() for line in folder.damage),
        ]

    def refresh(self, *, is_over: bool = False, gone: Collection[str] = ()) -> None:
        """Read new data.

        In a resumed run nothing is read before the last incarnation has begun to record, when it is known what that
        replaces.

        Args:
            is_over: The run had ended before this call, so that nothing more will be written.
            gone: Workers that had ended before this call.
        """
        replacements = read_replacements(self._run)
        if not replacements.is_begun and not is_over:
            return
        self.has_late_data |= self._replacements not in (None, replacements)
        self._replacements = replacements
        workers = {*names_in(os.path.join(self._run, layout.SERIES)), *_documented_workers(self._run)}
        for worker in sorted(workers):
            self._refresh_worker(worker, is_finished=is_over or worker in gone)
        if is_over:
            self.grid.finish()

    @property
    def horizon(self) -> int:
        """The last step that every worker has passed; -1 before the first."""
        return min((self._horizon(worker) for worker in self._complete), default=-1)

    def points(self, limit: int = MAX_STEP) -> Iterator[Point]:
        """Yield the steps that every worker has passed and that were not returned yet, in order.

        Args:
            limit: The last step to return.
        """
        horizon = min(self.horizon, limit)
        for key in sorted(key for key in self._points if key[0] <= horizon):
            if self.has_late_data:
                return
            point = self._points.pop(key)
            self._mode_steps.pop(key[:2], None)
            point.arrays = _with_mode_steps(point)
            point.place(self._axis)
            point.is_incomplete = point.step in self._dropped_steps
            point.begins = self._take_begins(point)
            self.judged_step = point.step
            yield point
        if 0 <= horizon < MAX_STEP:
            self.judged_step = max(self.judged_step, horizon)

    def _horizon(self, worker: str) -> int:
        """Return the last step of a worker for which no more data is expected.

        A writer hands tensors to the kernel after the scalars of their step and before the data of later flushes:
        once a later step is complete, the tensors of the previous one have been written or dropped.
        """
        complete = self._complete[worker]
        return complete if complete == MAX_STEP or not self._with_arrays else self._complete_before.get(worker, -1)

    def _refresh_worker(self, worker: str, *, is_finished: bool) -> None:
        self._complete.setdefault(worker, -1)
        complete_steps: set[int] = set()
        for batches in self._read(layout.SERIES, worker, is_finished=is_finished):
            self._add_rows(worker, batches)
            complete_steps.update(np.unique(batches.numbers("complete_step"))[-2:].tolist())
        for step in sorted(complete_steps):
            self._note_complete(worker, step)
        for batches in self._read(layout.TIMELINE, worker, is_finished=is_finished):
            self._add_events(worker, batches)
        if self._with_arrays:
            if worker not in self._tensors:
                self._tensors[worker] = TensorIndex(self._run, worker)
            for stored in self._tensors[worker].read_new():
                if not stored.is_readable:
                    continue
                array = TensorArray(worker, stored.name, stored.step, stored.step, stored.load)
                self._point(stored.step, stored.mode).arrays.append(array)
        if is_finished:
            self._complete[worker] = MAX_STEP

    def _read(self, part: str, worker: str, *, is_finished: bool) -> list[Range]:
        return self._streams.read_new(part, worker, reader=self._reader, is_finished=is_finished)

    def _add_rows(self, worker: str, batches: Range) -> None:
        shared = batches.info.layout
        assert shared is not None
        steps, times = batches.numbers("step"), batches.numbers("time_ns")
        if any(info.name != CLOCK for info in shared.tensors):
            stamps = (steps.tolist(), batches.texts("mode"), batches.numbers("mode_step").tolist(), times.tolist())
            for step, mode, mode_step, time_ns, values in zip(*stamps, batches.numbers("values"), strict=True):
                row = SeriesRow(worker, shared, mode_step, time_ns, values)
                self._point(step, mode, mode_step).rows.append(row)
        elif shared.columns[0][1] == "skipped":
            for step, mode in zip(steps.tolist(), batches.texts("mode"), strict=True):
                # always a train step, as only optimizer steps are skipped
                self._point(step, mode).is_skipped = True
        is_train = np.array([mode == "train" for mode in batches.texts("mode")])
        self.grid.add_records(times, steps, np.where(is_train, batches.numbers("mode_step"), -1), worker)
        last = (int(steps[-1]), int(times[-1]))
        self.seen[worker] = max(last, self.seen.get(worker, last))

    def _note_complete(self, worker: str, step: int) -> None:
        if step > self._complete[worker]:
            self._complete_before[worker] = self._complete[worker]
            self._complete[worker] = step

    def _point(self, step: int, mode: str, mode_step: int | None = None) -> Point:
        """Return the point of a step; with several ranks, eval steps between train steps can share a global step."""
        if mode == "train":
            mode_step = 0
        elif mode_step is None:
            mode_step = self._mode_steps.get((step, mode), _UNKNOWN_MODE_STEP)
        elif self._mode_steps.get((step, mode)) == _UNKNOWN_MODE_STEP:
            self._points[step, mode, mode_step] = self._points.pop((step, mode, _UNKNOWN_MODE_STEP))
        self._mode_steps[step, mode] = mode_step
        key = (step, mode, mode_step)
        if key not in self._points:
            if step <= self.judged_step:
                self.has_late_data = True
            self._points[key] = Point(step, mode)
        return self._points[key]

    def _add_events(self, worker: str, batches: Range) -> None:
        names = batches.texts("name")
        if _DROPPED_EVENT not in names and TRAINING not in names:
            return
        for name, step, args in zip(names, batches.numbers("step").tolist(), batches.texts("args"), strict=True):
            if name == _DROPPED_EVENT:
                self._dropped_steps.add(step)
            elif name == TRAINING and _number(args) > 1:
                self._begins.setdefault(step, set()).add(worker)
            else:
                continue
            self.has_late_data = self.has_late_data or step <= self.judged_step

    def _take_begins(self, point: Point) -> frozenset[str]:
        """Return the workers of which another training begins at a point or has begun since the one before.

        An eval step before the first train step of a training belongs to the one before.
        """
        if not self._begins or point.mode != "train":
            return frozenset()
        steps = [step for step in self._begins if step <= point.step]
        return frozenset().union(*(self._begins.pop(step) for step in steps))


def _number(args: str) -> int:
    """Return the number of a training among those of its process; 0: the arguments of its event are damaged."""
    fields = json.loads(args) if args else {}
    number = fields.get("number") if isinstance(fields, dict) else None
    return number if isinstance(number, int) else 0


def _with_mode_steps(point: Point) -> list[TensorArray]:
    """Return the arrays with their step within the mode, which only the series contains."""
    steps = {row.worker: row.mode_step for row in point.rows}
    return [replace(array, mode_step=steps.get(array.worker, array.step)) for array in point.arrays]


def _documented_workers(run: str) -> list[str]:
    names = names_in(os.path.join(run, layout.WORKERS))
    return [name.removesuffix(".json") for name in names if name.endswith(".json")]


class OtherRun:
    """A run that another one is compared with, read as it grows.

    Attributes:
        horizon: The last step for which no more data is expected.
    """

    def __init__(self, path: str, needs: Iterable[TensorNeed], *, with_arrays: bool) -> None:
        self.horizon = -1
        self._was_over = False
        self._path, self._needs, self._with_arrays = path, tuple(needs), with_arrays
        self._begin()

    def _begin(self) -> None:
        self._feed = Feed(self._path, TimeGrid(0), with_arrays=self._with_arrays)
        self._view = View(self._needs)
        self._pending: dict[_Position, Point] = {}

    def refresh(self) -> None:
        """Read new data."""
        is_over = liveness.is_over(self._path)
        if is_over and self._was_over:
            return
        self._was_over = is_over
        gone = liveness.finished_workers(self._path, read_workers(self._path))
        self._feed.refresh(is_over=is_over, gone=gone)
        if self._feed.has_late_data:
            self._begin()
            self._feed.refresh(is_over=is_over, gone=gone)
        for point in self._feed.points():
            self._pending[_position(point)] = point
        self.horizon = MAX_STEP if is_over else self._feed.horizon

    def window(self, point: Point) -> Window | None:
        """Return the window of this run at a point of the other run; points are passed in order."""
        for position in [position for position in self._pending if position[0] < point.step]:
            self._skip(self._pending.pop(position))
        counterpart = self._pending.get(_position(point))
        return None if counterpart is None else self._view.select(counterpart)

    def _skip(self, point: Point) -> None:
        """Add a point without a counterpart to the history."""
        if self._view.select(point) is not None:
            self._view.advance()


def _position(point: Point) -> _Position:
    """Return the step, mode and mode step; with several ranks, eval steps can share a global step."""
    mode_step = min((row.mode_step for row in point.rows), default=0)
    return point.step, point.mode, 0 if point.mode == "train" else mode_step
