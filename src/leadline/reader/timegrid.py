"""Time grid of a run: the moments at which time-based rules are evaluated."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from leadline.profiles.operator_times import DetailedWindows, OperatorTimes
from leadline.reader.incarnations import Replacements, read_replacements
from leadline.reader.interval import Interval, PhaseKey, Sensor, parse_row_args
from leadline.reader.segments import Range, SegmentInfo
from leadline.reader.step_axis import TrainSteps
from leadline.reader.stream import StreamTail
from leadline.reader.window import Scan
from leadline.records.documents import WorkerDocument
from leadline.records.json_object import JsonObject
from leadline.records.needs import Needs
from leadline.store import layout
from leadline.store.folder_watch import names_in
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import read_nodes, read_workers

SECOND_NS: Final = 1_000_000_000
GRID_NS: Final = SECOND_NS
SETTLE_NS: Final = 2 * SECOND_NS
"""A moment is evaluated when records are this far past it, so that late records are unlikely."""
_MAX_SETTLE_NS: Final = 60 * SECOND_NS

_EMPTY: Final = Interval()
_NO_RECORD: Final = (0, -1, -1)
"""The time, the global step and the train step of the last record of a worker."""


class TimeGrid:
    """The moments that can be evaluated, each with the last record before it and the records since the previous one.

    Moments are one second apart, from the run's start to its last record, which is a moment itself; there are none
    between the end of an incarnation and the start of the next. System metrics
    serve as heartbeats that let time pass while the workers are silent. A timeline row belongs to the moment after its
    end.

    Args:
        started_ns: When the run started.
        run: The run directory.
        needs: The needs of the time-based rules; other metrics and timeline rows are not kept.

    Attributes:
        has_late_data: A record arrived for a moment that was already returned. Call ``restart`` to include it; the
            settling time is then doubled.
        facts: The facts in the worker documents, by worker, with the number of cores of the node; only if needed.
    """

    def __init__(self, started_ns: int, run: str | None = None, needs: Iterable[Needs] = ()) -> None:
        self.started_ns = started_ns
        self.has_late_data = False
        self.facts: dict[str, JsonObject] = {}
        needs = tuple(needs)
        self._run = run
        self._metrics = tuple(dict.fromkeys(metric for need in needs for metric in need.metrics))
        self._phases = frozenset(name for need in needs for name in need.phases)
        self._has_facts = any(need.facts for need in needs)
        self._windows = DetailedWindows(run) if run is not None and any(need.operators for need in needs) else None
        self._settle_ns = SETTLE_NS
        self._cells: dict[int, tuple[int, int, int]] = {}
        self._train_steps: dict[str, TrainSteps] = {}
        self._latest_ns = 0
        self._is_finished = False
        self._replacements: Replacements | None = None
        self._interruptions: list[tuple[int, int]] = []
        self._reset()

    def _reset(self) -> None:
        self._next = 1
        self._end_ns = 0
        self._last = _NO_RECORD
        if self._windows is not None:
            self._windows.reset()
        self._streams: dict[tuple[str, str], StreamTail] = {}
        self._sensors: dict[int, tuple[SegmentInfo, dict[int, Sensor]]] = {}
        self._intervals: dict[int, Interval] = {}
        self._gone: Collection[str] = ()

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read."""
        return [line for stream in self._streams.values() for line in stream.damage]

    def refresh(self, *, is_over: bool = False, gone: Collection[str] = ()) -> None:
        """Read new data, where ``Feed.refresh`` does; the arguments are the same."""
        if self._run is None:
            return
        replacements = read_replacements(self._run)
        if not replacements.is_begun and not is_over:
            return
        if replacements != self._replacements:
            starts = read_incarnations(self._run).starts
            self._interruptions = [(start.ended_ns or start.started_ns, start.started_ns) for start in starts]
            self.has_late_data |= self._replacements is not None
            self._replacements = replacements
        self._gone = gone
        for node in names_in(os.path.join(self._run, layout.SYSTEM)):
            for batches in self._stream(layout.SYSTEM, node).read_new(is_finished=is_over):
                self._add_samples(node, batches)
        for worker in names_in(os.path.join(self._run, layout.TIMELINE)) if self._phases else ():
            for batches in self._stream(layout.TIMELINE, worker).read_new(is_finished=is_over or worker in gone):
                self._add_rows(worker, batches)
        if self._has_facts:
            self._read_facts(self._run)
        for window in self._windows.read_new() if self._windows else ():
            self._add_window(window)
        if is_over:
            self.finish()

    def add_heartbeats(self, times_ns: Any) -> None:
        """Advance the time."""
        self._latest_ns = max(self._latest_ns, int(np.max(times_ns)))

    def add_records(self, times_ns: Any, steps: Any, train_steps: Any, worker: str = "") -> None:
        """Add the times of records of a worker, their global steps, and their train steps (-1 in other modes)."""
        self._train_steps.setdefault(worker, TrainSteps()).add(steps, train_steps)
        for time_ns, step, train_step in zip(times_ns.tolist(), steps.tolist(), train_steps.tolist(), strict=True):
            cell = self._cell(time_ns)
            last_ns, last_step, last_train_step = self._cells.get(cell, _NO_RECORD)
            latest = (*max((last_ns, last_step), (time_ns, step)), max(last_train_step, train_step))
            if latest != (last_ns, last_step, last_train_step):
                self._cells[cell] = latest
                self._check_late(cell)
            self._latest_ns = max(self._latest_ns, time_ns)

    def finish(self) -> None:
        """Mark the run as ended, so that all moments up to the last record can be evaluated."""
        self._is_finished = True

    def restart(self) -> None:
        """Read all data again and return the moments from the first one on."""
        self.has_late_data = False
        self._settle_ns = min(2 * self._settle_ns, _MAX_SETTLE_NS)
        gone = self._gone
        self._reset()
        self.refresh(is_over=self._is_finished, gone=gone)

    def scans(self) -> Iterator[Scan]:
        """Yield the moments that can be evaluated and were not returned yet."""
        until_ns = max(self._latest_ns, self._end_ns) if self._is_finished else self._latest_ns - self._settle_ns
        while (moment_ns := self.started_ns + self._next * GRID_NS) <= until_ns or self._is_end(moment_ns, until_ns):
            interval = Interval()
            for cell in (0, self._next) if self._next == 1 else (self._next,):
                records = self._cells.get(cell, _NO_RECORD)
                self._last = (*max(self._last[:2], records[:2]), max(self._last[2], records[2]))
                interval.extend(self._intervals.pop(cell, _EMPTY), place=self._place)
            self._next += 1
            if self._is_interrupted(moment_ns):
                self._last = (0, *self._last[1:])
                continue
            last_ns, last_step, last_train_step = self._last
            is_last = self._is_finished and moment_ns >= until_ns
            yield Scan(
                min(moment_ns, until_ns),
                self.started_ns,
                last_ns or None,
                last_train_step if last_train_step >= 0 else last_step,
                last_step,
                interval,
                self.facts,
                is_last,
            )

    def _is_interrupted(self, moment_ns: int) -> bool:
        """Return whether no process of the run existed at a moment: rules are not evaluated over an interruption.

        After it there is no last record until the first one, as at the start of a run.
        """
        return any(ended_ns < moment_ns <= started_ns for ended_ns, started_ns in self._interruptions)

    def _is_end(self, moment_ns: int, until_ns: int) -> bool:
        """Return whether the last record of a run that has ended lies within the second before a moment."""
        return self._is_finished and moment_ns - GRID_NS < until_ns

    def _place(self, key: PhaseKey, steps: list[int]) -> list[int]:
        """Return the train steps of global steps; in other modes the steps as they are."""
        known = self._train_steps.get(key.worker)
        return steps if known is None or key.mode != "train" else [known.of(step) for step in steps]

    def _cell(self, time_ns: int) -> int:
        return max(0, -(-(time_ns - self.started_ns) // GRID_NS))

    def _check_late(self, cell: int) -> None:
        self.has_late_data = self.has_late_data or cell < self._next != 1

    def _stream(self, part: str, name: str) -> StreamTail:
        assert self._run is not None
        if (part, name) not in self._streams:
            self._streams[part, name] = StreamTail(self._run, part, name)
        return self._streams[part, name]

    def _add_samples(self, node: str, batches: Range) -> None:
        times = batches.numbers("time_ns")
        self.add_heartbeats(times)
        sensors = self._sensors_of(node, batches.info)
        channels = batches.numbers("channel")
        chosen = np.isin(channels, list(sensors))
        columns = (times, channels, batches.numbers("value"))
        for time_ns, channel, value in zip(*(column[chosen].tolist() for column in columns), strict=True):
            self._interval(time_ns).add_sample(sensors[channel], time_ns, value)

    def _sensors_of(self, node: str, segment: SegmentInfo) -> dict[int, Sensor]:
        """Return the needed channels of a segment, by index."""
        if id(segment) not in self._sensors:
            sensors = {
                index: Sensor.of(node, channel)
                for index, channel in enumerate(segment.channels)
                if any(need.selects(channel.kind, channel.device, channel.metric) for need in self._metrics)
            }
            self._sensors[id(segment)] = (segment, sensors)
        return self._sensors[id(segment)][1]

    def _add_rows(self, worker: str, batches: Range) -> None:
        names = batches.texts("name")
        if self._phases.isdisjoint(names):
            return
        numbers = (batches.numbers(name).tolist() for name in ("step", "start_ns", "duration_ns"))
        texts = (batches.texts(name) for name in ("phase", "args"))
        for name, mode, args, step, start_ns, duration_ns in zip(names, *texts, *numbers, strict=True):
            if name in self._phases:
                self._latest_ns = max(self._latest_ns, start_ns + duration_ns)
                parsed = parse_row_args(args)
                key = PhaseKey(worker, mode, name, parsed.within)
                self._interval(start_ns + duration_ns).add_span(key, step, start_ns, duration_ns, parsed)

    def _add_window(self, window: OperatorTimes) -> None:
        """Add a window to the moment after it was written; a run that has ended is extended to that moment."""
        self._latest_ns = max(self._latest_ns, window.written_ns)
        self._end_ns = max(self._end_ns, self.started_ns + self._cell(window.written_ns) * GRID_NS)
        self._interval(window.written_ns).add_operators(window)

    def _interval(self, time_ns: int) -> Interval:
        cell = self._cell(time_ns)
        if cell not in self._intervals:
            self._check_late(cell)
            self._intervals[cell] = Interval()
        return self._intervals[cell]

    def _read_facts(self, run: str) -> None:
        cores = {node.node: node.cpu_count for node in read_nodes(run)}
        facts = {worker: _facts(document, cores) for worker, document in read_workers(run).items()}
        if facts != self.facts:
            self.facts = facts
            self.has_late_data = self.has_late_data or self._next != 1


def _facts(document: WorkerDocument, cores: Mapping[str, int | None]) -> JsonObject:
    node = document.node or ""
    return {**document.facts, "node": node, "cores": cores.get(node)}
