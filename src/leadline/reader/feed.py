"""The stream of a run as rules are shown it: step after step, each once all workers have passed it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from leadline.reader.segments import Batch, SegmentInfo
from leadline.reader.stream import StreamTail
from leadline.reader.tensors import TensorIndex
from leadline.reader.throttling import THINNED, ThrottlingHistory
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import Point, SeriesRow
from leadline.reader.window import TensorArray
from leadline.records.series import SeriesLayout
from leadline.store import layout
from leadline.store.documents import read_document

CLOCK: Final = "clock"
"""The tensor whose rows only say that steps pass."""
_LOST: Final = "data_lost"
_UNTOLD: Final = -1
"""Stands for the step within its mode while only a tensor file tells of an eval step."""
NEVER: Final = 1 << 62
"""A step that no run comes to."""


class Feed:
    """Follows a run for rules.

    Attributes:
        grid: The records' times, for rules of time.
        judged_step: The last step that was given out; -1 before the first.
        thinnings: What the overhead budget thinned.
        seen: For each worker the last global step that is known of, and its time.
        is_overtaken: Something appeared at a step that was given out already (a worker that came late, or a
            tensor): to judge it as if it had been there, begin again with a new feed.
    """

    def __init__(self, run: str, grid: TimeGrid, *, with_arrays: bool = False) -> None:
        self.grid = grid
        self.judged_step = -1
        self.seen: dict[str, tuple[int, int]] = {}
        self.is_overtaken = False
        self._run, self._with_arrays = run, with_arrays
        self._series: dict[str, StreamTail] = {}
        self._timeline: dict[str, StreamTail] = {}
        self._tensors: dict[str, TensorIndex] = {}
        self._complete: dict[str, int] = {}
        self._complete_before: dict[str, int] = {}
        self._layouts: dict[SeriesLayout, SeriesLayout] = {}
        self._layout_of_segment: dict[int, tuple[SegmentInfo, SeriesLayout]] = {}
        self._points: dict[tuple[int, str, int], Point] = {}
        self._places: dict[tuple[int, str], int] = {}
        self._lost: set[int] = set()
        self.thinnings = ThrottlingHistory(frozenset())

    @property
    def damage(self) -> list[str]:
        """One line for each part of the run that could not be read."""
        streams = (*self._series.values(), *self._timeline.values())
        return [
            *(line for stream in streams for line in stream.damage),
            *(line for folder in self._tensors.values() for line in folder.damage),
        ]

    def refresh(self, *, is_over: bool = False, gone: Collection[str] = ()) -> None:
        """Read what came.

        Args:
            is_over: Nobody writes this run any more, and nobody did when this call began.
            gone: Workers of which the same is known.
        """
        workers = set(_folders(self._run, layout.SERIES)) | set(_documents(self._run))
        for worker in sorted(workers):
            self._refresh_worker(worker, is_finished=is_over or worker in gone)
        if is_over:
            self.grid.finish()

    @property
    def horizon(self) -> int:
        """The last step that every worker has passed; -1 before the first."""
        return min((self._horizon(worker) for worker in self._complete), default=-1)

    def points(self, limit: int = NEVER) -> Iterator[Point]:
        """The steps that every worker has passed and that were not given out yet, in order.

        Args:
            limit: The last step that may be given out.
        """
        horizon = min(self.horizon, limit)
        for key in sorted(key for key in self._points if key[0] <= horizon):
            if self.is_overtaken:
                return
            point = self._points.pop(key)
            self._places.pop(key[:2], None)
            point.arrays = _with_mode_steps(point)
            point.is_thinned = point.step in self._lost
            self.judged_step = point.step
            yield point
        if 0 <= horizon < NEVER:
            self.judged_step = max(self.judged_step, horizon)

    def _horizon(self, worker: str) -> int:
        """The last step of a worker of which nothing more is awaited.

        A writer hands tensors to the kernel after the numbers of their step, and before anything of a later flush:
        once a later step is said to be whole, the tensors of the one before are there, or lost.
        """
        whole = self._complete[worker]
        return whole if whole == NEVER or not self._with_arrays else self._complete_before.get(worker, -1)

    def _refresh_worker(self, worker: str, *, is_finished: bool) -> None:
        events = self._timeline.setdefault(worker, StreamTail(self._run, layout.TIMELINE, worker))
        series = self._series.setdefault(worker, StreamTail(self._run, layout.SERIES, worker))
        self._complete.setdefault(worker, -1)
        for batch in series.read_new(is_finished=is_finished):
            self._take_rows(worker, batch)
        for batch in events.read_new(is_finished=is_finished):
            self._take_events(worker, batch)
        if self._with_arrays:
            for stored in self._tensors.setdefault(worker, TensorIndex(self._run, worker)).read_new():
                if not stored.is_readable:
                    continue
                array = TensorArray(worker, stored.name, stored.step, stored.step, stored.load)
                self._point(stored.step, stored.mode).arrays.append(array)
        if is_finished:
            self._complete[worker] = NEVER

    def _take_rows(self, worker: str, batch: Batch) -> None:
        shared = self._layout_of(batch.segment)
        columns = batch.columns
        steps, mode_steps, times = columns["step"], columns["mode_step"], columns["time_ns"]
        is_clock = all(info.name == CLOCK for info in shared.tensors)
        if is_clock and shared.columns[0][1] == "skipped":
            for step, mode in zip(steps, columns["mode"], strict=True):
                self._point(int(step), str(mode)).is_skipped = True  # of training, as only an optimizer can be skipped
        for index in range(0 if not is_clock else batch.rows, batch.rows):
            row = SeriesRow(worker, shared, int(mode_steps[index]), int(times[index]), columns["values"][index])  # type: ignore[arg-type]
            self._point(int(steps[index]), str(columns["mode"][index]), row.mode_step).rows.append(row)
        self.grid.add_records(times, steps)
        self._note_complete(worker, int(columns["complete_step"][-1]))
        last = (int(steps[-1]), int(times[-1]))
        self.seen[worker] = max(last, self.seen.get(worker, last))

    def _note_complete(self, worker: str, step: int) -> None:
        if step > self._complete[worker]:
            self._complete_before[worker] = self._complete[worker]
            self._complete[worker] = step

    def _layout_of(self, segment: SegmentInfo) -> SeriesLayout:
        """The layout of a segment, one and the same object for all that are alike."""
        if id(segment) not in self._layout_of_segment:
            assert segment.layout is not None
            shared = self._layouts.setdefault(segment.layout, segment.layout)
            self._layout_of_segment[id(segment)] = (segment, shared)
        return self._layout_of_segment[id(segment)][1]

    def _point(self, step: int, mode: str, mode_step: int | None = None) -> Point:
        """The point of a step; where several ranks train, eval steps between two train steps bear one global step."""
        if mode == "train":
            mode_step = 0
        elif mode_step is None:
            mode_step = self._places.get((step, mode), _UNTOLD)
        elif self._places.get((step, mode)) == _UNTOLD:
            self._points[step, mode, mode_step] = self._points.pop((step, mode, _UNTOLD))
        self._places[step, mode] = mode_step
        key = (step, mode, mode_step)
        if key not in self._points:
            if step <= self.judged_step:
                self.is_overtaken = True
            self._points[key] = Point(step, mode)
        return self._points[key]

    def _take_events(self, worker: str, batch: Batch) -> None:
        columns = batch.columns
        for name, step, args in zip(columns["name"], columns["step"], columns["args"], strict=True):
            if name == _LOST:
                self._lost.add(int(step))
                self.is_overtaken = self.is_overtaken or step <= self.judged_step
            elif name == THINNED:
                if not self.thinnings.version:
                    self.thinnings = ThrottlingHistory(_planned(self._run))
                self.thinnings.add(worker, json.loads(str(args)))
                self.is_overtaken = self.is_overtaken or step < self.judged_step


def _with_mode_steps(point: Point) -> list[TensorArray]:
    """The arrays with their step within the mode, which only the series tells."""
    steps = {row.worker: row.mode_step for row in point.rows}
    return [replace(each, mode_step=steps.get(each.worker, each.step)) for each in point.arrays]


def _planned(run: str) -> frozenset[str]:
    """Who asked for something in a run's capture plan."""
    manifest = read_document(os.path.join(run, layout.MANIFEST)) or {}
    return frozenset(str(item["source"]) for item in manifest.get("plan", {}).get("items", ()))


def _folders(run: str, part: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(run, part)))
    except FileNotFoundError:
        return []


def _documents(run: str) -> list[str]:
    return [name.removesuffix(".json") for name in _folders(run, layout.WORKERS) if name.endswith(".json")]
