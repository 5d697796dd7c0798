"""The steps of a run's workers, from derived files and from the newest batches."""

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
from leadline.reader.compact import ParquetPart, unpacked
from leadline.reader.tables import TIMELINE, named
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
        """Where they come from."""
        return self._streams

    def series(self, worker: str | None = None, mode: str | None = None) -> list[Series]:
        """Workers and modes that have steps."""
        found = []
        for stream in self._ordered():
            modes = {key[0] for part in stream.parts for key in part.keys} | set(self._tail(stream)[1])
            found += [(stream.name, each) for each in MODES if each in modes]
        return [each for each in found if worker in (None, each[0]) and mode in (None, each[1])]

    def bounds(self, series: Series) -> tuple[int, int]:
        """The first and the last step."""
        told = [part.bounds(number, STEPS.axis) for part, number in self._parts(series)]
        tail = self._tail_of(series)
        if tail is not None:
            told.append((int(tail.step[0]), int(tail.step[-1])))
        return min(first for first, _ in told), max(last for _, last in told)

    def rows(self, series: Series, width: int = 1, low: int | None = None, high: int | None = None) -> StepSums | None:
        """Steps, or buckets from which those of a width can be made, with ``low <= step < high``."""
        found = [
            _read(part, number, series, part.level(number, width), low, high) for part, number in self._parts(series)
        ]
        tail = self._tail_of(series)
        found = [each for each in (*found, *([tail] if tail is not None else ())) if len(each)]
        if not found:
            return None
        rows = joined_steps(found)
        keep = np.ones(len(rows), bool)
        if low is not None:
            keep &= rows.step >= low
        if high is not None:
            keep &= rows.step < high
        return rows if keep.all() else rows.where(keep)

    def durations(self, series: Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """How long each step took, ns, and for how many each stands."""
        took, counts = [], []
        for part, number in self._parts(series):
            columns = part.read(0, [number], ("longest_ns", "count"))[1]
            took.append(columns["longest_ns"])
            counts.append(columns["count"])
        tail = self._tail_of(series)
        if tail is not None:
            took.append(tail.longest_ns)
            counts.append(tail.count)
        return np.concatenate(took), np.concatenate(counts)

    def between(self, series: Series, start_ns: int | None, end_ns: int | None) -> tuple[int, int] | None:
        """The first and the last step that were under way in an interval of time."""
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
        """How much time each part took in an interval, ns ``(PARTS,)``."""
        rows = self.rows(series, _COARSE)
        if rows is None:
            return np.zeros(len(PARTS))
        start = rows.start_ns.min() if start_ns is None else start_ns
        end = rows.end_ns.max() if end_ns is None else end_ns
        is_inside = (rows.start_ns >= start) & (rows.end_ns <= end)
        sums: Floats = rows.parts[is_inside].sum(axis=0)
        is_cut = overlapping(rows, start_ns, end_ns) & ~is_inside
        for place in np.flatnonzero(is_cut):
            exact = self.rows(series, 1, int(rows.step[place]), int(rows.last_step[place]) + 1)
            if exact is not None:
                sums = sums + within(exact, start_ns, end_ns)
        return sums

    def span_ns(self) -> tuple[int, int] | None:
        """When the first step began, and when the last ended."""
        told = [part.said["steps"] for each in self._ordered() for part in each.parts if part.said["steps"]]
        for stream in self._ordered():
            told += [(int(each.start_ns.min()), int(each.end_ns.max())) for each in self._tail(stream)[1].values()]
        return (min(each[0] for each in told), max(each[1] for each in told)) if told else None

    def latest_ns(self) -> int | None:
        """The end of the latest row of all timelines."""
        ends = [self._streams.latest_ns()]
        for stream in self._ordered():
            rows = self._tail(stream)[0]
            ends.append(pc.max(pc.add(rows["start_ns"], rows["duration_ns"])).as_py())
        return max((each for each in ends if each is not None), default=None)

    def rows_between(self, worker: str, start_ns: int, end_ns: int, most_bytes: int) -> pa.Table:
        """The rows of a worker's timeline that were under way in an interval, by their start."""
        stream = self._streams.all.get(worker)
        ranges = stream.rows_between(start_ns, end_ns, most_bytes) if stream is not None else []
        rows = pa.concat_tables([TIMELINE.empty_table(), *(named(each.table, TIMELINE, worker) for each in ranges)])
        ends = pc.add(rows["start_ns"], rows["duration_ns"])
        is_in = pc.or_(pc.greater(ends, start_ns), pc.equal(rows["start_ns"], start_ns))
        found = rows.filter(pc.and_(is_in, pc.less(rows["start_ns"], end_ns)))
        return found.sort_by([("start_ns", "ascending")])

    def events(self, worker: str | None = None) -> pa.Table:
        """The rows of the timelines that are no steps, as ``Run.timeline`` has them."""
        found = [TIMELINE.empty_table()]
        for stream in self._ordered():
            if worker in (None, stream.name):
                found += [unpacked(part.said["events"]) for part in stream.parts]
                found.append(events_of(self._tail(stream)[0]))
        return pa.concat_tables(found).sort_by([("start_ns", "ascending")])

    def _ordered(self) -> list[Stream]:
        return sorted(self._streams.all.values(), key=lambda each: natural_sort_key(each.name))

    def _parts(self, series: Series) -> Iterator[tuple[ParquetPart, int]]:
        stream = self._streams.all.get(series[0])
        for part in stream.parts if stream is not None else ():
            if series[1:] in part.keys:
                yield part, part.keys[series[1:]]

    def _tail_of(self, series: Series) -> StepSums | None:
        stream = self._streams.all.get(series[0])
        return self._tail(stream)[1].get(series[1]) if stream is not None else None

    def _tail(self, stream: Stream) -> tuple[pa.Table, dict[str, StepSums]]:
        known = self._tails.get(stream.name)
        if known is None or known[0] != stream.version:
            rows = pa.concat_tables(
                [TIMELINE.empty_table(), *(named(each.table, TIMELINE, stream.name) for each in stream.tail)]
            )
            told = int(stream.parts[-1].said["step"]) if stream.parts else -1
            steps = read_steps(rows.filter(pc.greater(rows["step"], told)) if told >= 0 else rows)
            known = self._tails[stream.name] = (stream.version, rows, {each.mode: each for each in sums_of(steps)})
        return known[1], known[2]


def _read(part: ParquetPart, number: int, series: Series, level: int, low: int | None, high: int | None) -> StepSums:
    names = STEPS.schema.names if level else STEPS.own
    if low is not None and level:
        low = low // level * level
    columns = part.read(level, [number], names, axis=STEPS.axis, low=low, high=high)[1]
    return steps_of_columns(*series, columns if level else STEPS.fill(columns))
