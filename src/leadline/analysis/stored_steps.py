"""Stored steps of a run: compacted files and the newest batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest_steps import StepSums, events_of, joined_steps, overlapping, sums_of, within
from leadline.analysis.rollup_schema import STEPS, steps_of_columns
from leadline.analysis.steps import PARTS, read_steps
from leadline.analysis.streams import Stream, Streams
from leadline.reader.compact import ParquetPart, decode_table
from leadline.reader.tables import TIMELINE, with_text_columns
from leadline.reader.window import natural_sort_key
from leadline.records.names import MODES

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_COARSE: Final = 64
Series = tuple[str, str]
"""Worker and mode."""


class StoredSteps:
    """All steps of a run."""

    def __init__(self, run: str) -> None:
        self._streams = Streams(run, STEPS)
        self._tails: dict[str, tuple[int, pa.Table, dict[str, StepSums]]] = {}

    @property
    def streams(self) -> Streams:
        """The underlying streams."""
        return self._streams

    def series(self, worker: str | None = None, mode: str | None = None) -> list[Series]:
        """Return the workers and modes that have steps."""
        series = []
        for stream in self._ordered():
            modes = {key[0] for part in stream.parts for key in part.keys} | set(self._tail(stream)[1])
            series += [(stream.name, mode_name) for mode_name in MODES if mode_name in modes]
        return [item for item in series if worker in (None, item[0]) and mode in (None, item[1])]

    def bounds(self, series: Series) -> tuple[int, int]:
        """Return the first and the last step."""
        ranges = [part.bounds(number, STEPS.axis) for part, number in self._parts(series)]
        tail = self._tail_of(series)
        if tail is not None:
            ranges.append((int(tail.step[0]), int(tail.step[-1])))
        return min(first for first, _ in ranges), max(last for _, last in ranges)

    def rows(self, series: Series, width: int = 1, low: int | None = None, high: int | None = None) -> StepSums | None:
        """Return steps, or buckets that can be merged to ``width``, with ``low <= step < high``."""
        parts = [
            _read_part(part, number, series, part.level(number, width), low, high)
            for part, number in self._parts(series)
        ]
        tail = self._tail_of(series)
        parts = [part for part in (*parts, *([tail] if tail is not None else ())) if len(part)]
        if not parts:
            return None
        rows = joined_steps(parts)
        keep = np.ones(len(rows), bool)
        if low is not None:
            keep &= rows.step >= low
        if high is not None:
            keep &= rows.step < high
        return rows if keep.all() else rows.where(keep)

    def durations(self, series: Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the time of each step, ns, and the number of steps that it represents."""
        durations_ns, counts = [], []
        for part, number in self._parts(series):
            columns = part.read(0, [number], ("longest_ns", "count"))[1]
            durations_ns.append(columns["longest_ns"])
            counts.append(columns["count"])
        tail = self._tail_of(series)
        if tail is not None:
            durations_ns.append(tail.longest_ns)
            counts.append(tail.count)
        return np.concatenate(durations_ns), np.concatenate(counts)

    def between(self, series: Series, start_ns: int | None, end_ns: int | None) -> tuple[int, int] | None:
        """Return the first and the last step that overlap a time interval."""
        rows = self.rows(series, _COARSE)
        if rows is None:
            return None
        rows = rows.where(overlapping(rows, start_ns, end_ns))
        if not len(rows):
            return None
        exact = self.rows(series, 1, int(rows.step[0]), int(rows.last_step[-1]) + 1)
        assert exact is not None
        exact = exact.where(overlapping(exact, start_ns, end_ns))
        return (int(exact.step[0]), int(exact.step[-1])) if len(exact) else None

    def parts_in(self, series: Series, start_ns: int | None, end_ns: int | None) -> Floats:
        """Return the time of each part in an interval, ns ``(PARTS,)``."""
        rows = self.rows(series, _COARSE)
        if rows is None:
            return np.zeros(len(PARTS))
        start = rows.start_ns.min() if start_ns is None else start_ns
        end = rows.end_ns.max() if end_ns is None else end_ns
        is_inside = (rows.start_ns >= start) & (rows.end_ns <= end)
        sums: Floats = rows.parts[is_inside].sum(axis=0)
        is_cut = overlapping(rows, start_ns, end_ns) & ~is_inside
        for index in np.flatnonzero(is_cut):
            exact = self.rows(series, 1, int(rows.step[index]), int(rows.last_step[index]) + 1)
            if exact is not None:
                sums = sums + within(exact, start_ns, end_ns)
        return sums

    def span_ns(self) -> tuple[int, int] | None:
        """Return the start of the first step and the end of the last."""
        spans = [
            part.metadata["steps"] for stream in self._ordered() for part in stream.parts if part.metadata["steps"]
        ]
        for stream in self._ordered():
            spans += [(int(sums.start_ns.min()), int(sums.end_ns.max())) for sums in self._tail(stream)[1].values()]
        return (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else None

    def latest_ns(self) -> int | None:
        """Return the end of the latest row of all timelines."""
        ends = [self._streams.latest_ns()]
        for stream in self._ordered():
            rows = self._tail(stream)[0]
            ends.append(pc.max(pc.add(rows["start_ns"], rows["duration_ns"])).as_py())
        return max((end for end in ends if end is not None), default=None)

    def rows_between(self, worker: str, start_ns: int, end_ns: int, max_bytes: int) -> pa.Table:
        """Return the timeline rows of a worker that overlap an interval, ordered by start."""
        stream = self._streams.all.get(worker)
        ranges = stream.rows_between(start_ns, end_ns, max_bytes) if stream is not None else []
        rows = pa.concat_tables(
            [TIMELINE.empty_table(), *(with_text_columns(batches.table, TIMELINE, worker) for batches in ranges)]
        )
        ends = pc.add(rows["start_ns"], rows["duration_ns"])
        ends_after_start = pc.or_(pc.greater(ends, start_ns), pc.equal(rows["start_ns"], start_ns))
        selected = rows.filter(pc.and_(ends_after_start, pc.less(rows["start_ns"], end_ns)))
        return selected.sort_by([("start_ns", "ascending")])

    def events(self, worker: str | None = None) -> pa.Table:
        """Return the timeline rows outside of steps, as ``Run.timeline``."""
        tables = [TIMELINE.empty_table()]
        for stream in self._ordered():
            if worker in (None, stream.name):
                tables += [decode_table(part.metadata["events"]) for part in stream.parts]
                tables.append(events_of(self._tail(stream)[0]))
        return pa.concat_tables(tables).sort_by([("start_ns", "ascending")])

    def _ordered(self) -> list[Stream]:
        return sorted(self._streams.all.values(), key=lambda stream: natural_sort_key(stream.name))

    def _parts(self, series: Series) -> Iterator[tuple[ParquetPart, int]]:
        stream = self._streams.all.get(series[0])
        for part in stream.parts if stream is not None else ():
            if series[1:] in part.keys:
                yield part, part.keys[series[1:]]

    def _tail_of(self, series: Series) -> StepSums | None:
        stream = self._streams.all.get(series[0])
        return self._tail(stream)[1].get(series[1]) if stream is not None else None

    def _tail(self, stream: Stream) -> tuple[pa.Table, dict[str, StepSums]]:
        entry = self._tails.get(stream.name)
        if entry is None or entry[0] != stream.version:
            rows = pa.concat_tables(
                [
                    TIMELINE.empty_table(),
                    *(with_text_columns(batches.table, TIMELINE, stream.name) for batches in stream.tail),
                ]
            )
            last_step = int(stream.parts[-1].metadata["step"]) if stream.parts else -1
            steps = read_steps(rows.filter(pc.greater(rows["step"], last_step)) if last_step >= 0 else rows)
            entry = self._tails[stream.name] = (stream.version, rows, {sums.mode: sums for sums in sums_of(steps)})
        return entry[1], entry[2]


def _read_part(
    part: ParquetPart, number: int, series: Series, level: int, low: int | None, high: int | None
) -> StepSums:
    names = STEPS.schema.names if level else STEPS.row_columns
    if low is not None and level:
        low = low // level * level
    columns = part.read(level, [number], names, axis=STEPS.axis, low=low, high=high)[1]
    return steps_of_columns(*series, columns if level else STEPS.fill(columns))
