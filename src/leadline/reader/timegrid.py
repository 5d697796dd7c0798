"""A run's records, cut into the grid of moments on which rules of time are judged."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from leadline.reader import liveness
from leadline.reader.detailed_windows import DeepWindows
from leadline.reader.interval import Interval, PhaseKey, Sensor, place_of
from leadline.reader.operator_times import OperatorTimes
from leadline.reader.segments import Batch, SegmentInfo
from leadline.reader.stream import StreamTail
from leadline.reader.window import Scan
from leadline.records.needs import Needs
from leadline.store import layout

SECOND_NS: Final = 1_000_000_000
GRID_NS: Final = SECOND_NS
SETTLE_NS: Final = 2 * SECOND_NS
"""A moment is judged when the records are so far past it that little can still come from before it."""
_MOST_SETTLE_NS: Final = 60 * SECOND_NS

_NOTHING: Final = Interval()


class TimeGrid:
    """Which moments can be judged, what was the last record before each, and what came since the one before.

    The moments lie a second apart from the run's start, up to the last record of all (the node's samples are
    the heartbeats that let time pass while the workers are silent). A row of a timeline belongs to the moment after
    its end.

    Args:
        started_ns: When the run started.
        run: Its folder.
        needs: What the rules of time need; of the machine and the timelines nothing else is kept.

    Attributes:
        is_overtaken: A record came from before a moment that was given out: begin again with ``restart``. After
            that it waits twice as long for what comes late.
        facts: What the workers say of themselves, by name, with their node's number of cores; only where needed.
    """

    def __init__(self, started_ns: int, run: str | None = None, needs: Iterable[Needs] = ()) -> None:
        self.started_ns = started_ns
        self.is_overtaken = False
        self.facts: dict[str, dict[str, Any]] = {}
        needs = tuple(needs)
        self._run = run
        self._metrics = tuple(dict.fromkeys(each for need in needs for each in need.metrics))
        self._phases = frozenset(name for need in needs for name in need.phases)
        self._has_facts = any(need.facts for need in needs)
        self._deep = DeepWindows(run) if run is not None and any(need.operators for need in needs) else None
        self._settle_ns = SETTLE_NS
        self._cells: dict[int, tuple[int, int]] = {}
        self._latest_ns = 0
        self._is_finished = False
        self._begin()

    def _begin(self) -> None:
        self._next, self._last, self._end_ns = 1, None, 0
        if self._deep is not None:
            self._deep.begin()
        self._streams: dict[tuple[str, str], StreamTail] = {}
        self._sensors: dict[int, tuple[SegmentInfo, dict[int, Sensor]]] = {}
        self._intervals: dict[int, Interval] = {}
        self._gone: Collection[str] = ()

    _next: int
    _end_ns: int
    _last: tuple[int, int] | None

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read."""
        return [line for stream in self._streams.values() for line in stream.damage]

    def refresh(self, *, is_over: bool = False, gone: Collection[str] = ()) -> None:
        """Read what came; the arguments are those of ``Feed.refresh``."""
        if self._run is None:
            return
        self._gone = gone
        for node in _folders(self._run, layout.SYSTEM):
            for batch in self._stream(layout.SYSTEM, node).read_new(is_finished=is_over):
                self._take_samples(node, batch)
        for worker in _folders(self._run, layout.TIMELINE) if self._phases else ():
            for batch in self._stream(layout.TIMELINE, worker).read_new(is_finished=is_over or worker in gone):
                self._take_rows(worker, batch)
        if self._has_facts:
            self._read_facts(self._run)
        for window in self._deep.new() if self._deep else ():
            self._take_window(window)
        if is_over:
            self.finish()

    def add_heartbeats(self, times_ns: Any) -> None:
        """Let time pass."""
        self._latest_ns = max(self._latest_ns, int(max(times_ns)))

    def add_records(self, times_ns: Any, steps: Any) -> None:
        """What workers wrote, and when."""
        for time_ns, step in zip(times_ns.tolist(), steps.tolist(), strict=True):
            cell = self._cell(time_ns)
            known = self._cells.get(cell)
            if known is None or (time_ns, step) > known:
                self._cells[cell] = (time_ns, step)
                self._note_late(cell)
            self._latest_ns = max(self._latest_ns, time_ns)

    def finish(self) -> None:
        """Nothing more comes: the moments up to the last record can be judged."""
        self._is_finished = True

    def restart(self) -> None:
        """Read all again, and give out the moments from the first."""
        self.is_overtaken = False
        self._settle_ns = min(2 * self._settle_ns, _MOST_SETTLE_NS)
        gone = self._gone
        self._begin()
        self.refresh(is_over=self._is_finished, gone=gone)

    def scans(self) -> Iterator[Scan]:
        """The moments that can be judged and were not given out yet."""
        until_ns = max(self._latest_ns, self._end_ns) if self._is_finished else self._latest_ns - self._settle_ns
        while self.started_ns + self._next * GRID_NS <= until_ns:
            moment_ns = self.started_ns + self._next * GRID_NS
            interval = Interval()
            for cell in (0, self._next) if self._next == 1 else (self._next,):
                self._last = max(self._last or (0, -1), self._cells.get(cell, (0, -1)))
                interval.extend(self._intervals.pop(cell, _NOTHING))
            self._next += 1
            last = self._last if self._last and self._last[0] else None
            yield Scan(
                moment_ns, self.started_ns, last[0] if last else None, last[1] if last else -1, interval, self.facts
            )

    def _cell(self, time_ns: int) -> int:
        return max(0, -(-(time_ns - self.started_ns) // GRID_NS))

    def _note_late(self, cell: int) -> None:
        self.is_overtaken = self.is_overtaken or cell < self._next != 1

    def _stream(self, part: str, name: str) -> StreamTail:
        assert self._run is not None
        if (part, name) not in self._streams:
            self._streams[part, name] = StreamTail(self._run, part, name)
        return self._streams[part, name]

    def _take_samples(self, node: str, batch: Batch) -> None:
        times = batch.columns["time_ns"]
        self.add_heartbeats(times)
        wanted = self._sensors_of(node, batch.segment)
        if not wanted:
            return
        columns = (times, batch.columns["channel"], batch.columns["value"])
        for time_ns, channel, value in zip(*(each.tolist() for each in columns), strict=True):  # type: ignore[union-attr]
            if channel in wanted:
                self._interval(time_ns).add_sample(wanted[channel], time_ns, value)

    def _sensors_of(self, node: str, segment: SegmentInfo) -> dict[int, Sensor]:
        """The channels of a segment that somebody needs, by their place."""
        if id(segment) not in self._sensors:
            found = {
                place: Sensor.of(node, each)
                for place, each in enumerate(segment.channels)
                if any(need.selects(each.kind, each.device, each.metric) for need in self._metrics)
            }
            self._sensors[id(segment)] = (segment, found)
        return self._sensors[id(segment)][1]

    def _take_rows(self, worker: str, batch: Batch) -> None:
        columns = batch.columns
        numbers = (columns[each].tolist() for each in ("step", "start_ns", "duration_ns"))  # type: ignore[union-attr]
        texts = (columns[each] for each in ("name", "phase", "args"))
        for name, mode, args, step, start_ns, duration_ns in zip(*texts, *numbers, strict=True):
            if name in self._phases:
                self._latest_ns = max(self._latest_ns, start_ns + duration_ns)
                within, weight = place_of(args)
                key = PhaseKey(worker, mode, name, within)
                self._interval(start_ns + duration_ns).add_span(key, step, start_ns, duration_ns, weight)

    def _take_window(self, window: OperatorTimes) -> None:
        """A window belongs to the moment after it was whole, which a run that has ended comes to for its sake."""
        self._latest_ns = max(self._latest_ns, window.whole_ns)
        self._end_ns = max(self._end_ns, self.started_ns + self._cell(window.whole_ns) * GRID_NS)
        self._interval(window.whole_ns).add_operators(window)

    def _interval(self, time_ns: int) -> Interval:
        cell = self._cell(time_ns)
        if cell not in self._intervals:
            self._note_late(cell)
            self._intervals[cell] = Interval()
        return self._intervals[cell]

    def _read_facts(self, run: str) -> None:
        cores = {str(each.get("node")): each.get("cpu_count") for each in liveness.read_nodes(run)}
        facts = {worker: _facts(each, cores) for worker, each in liveness.read_workers(run).items()}
        if facts != self.facts:
            self.facts = facts
            self.is_overtaken = self.is_overtaken or self._next != 1


def _facts(document: Mapping[str, Any], cores: Mapping[str, Any]) -> dict[str, Any]:
    node = str(document.get("node"))
    said = document.get("facts")
    return {**(said if isinstance(said, dict) else {}), "node": node, "cores": cores.get(node)}


def _folders(run: str, part: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(run, part)))
    except FileNotFoundError:
        return []
