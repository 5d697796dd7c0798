"""Steps of a run: queries of their times and phases, and step buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.segment_rows import SegmentSteps, events_of, timeline_of
from leadline.analysis.steps import Floats, Integers
from leadline.analysis.stored_rows import Edges, Series, StoredSteppedRows, Stream
from leadline.reader.rollups import PART_COLUMNS, STEPS, Columns, Key, select
from leadline.reader.step_axis import Stamps
from leadline.reader.stream import BulkStream
from leadline.reader.tables import TIMELINE, with_text_columns
from leadline.records.names import PARTS

if TYPE_CHECKING:
    import numpy.typing as npt

STEP_BUCKETS: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("mode", pa.string()),
        ("step", pa.int64()),
        ("end_step", pa.int64()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("count", pa.int64()),
        ("duration_ns", pa.int64()),
        ("longest_ns", pa.int64()),
        ("shortest_ns", pa.int64()),
        ("longest_step", pa.int64()),
        *((f"{part}_ns", pa.float64()) for part in PARTS),
    ]
)
_SHARES: Final = (0.5, 0.95, 0.99)


class StoredSteps(StoredSteppedRows[SegmentSteps]):
    """All steps of a run."""

    table_schema = STEP_BUCKETS

    def __init__(self, run: str) -> None:
        super().__init__(run, STEPS, _read_tail)

    def _table(self, worker: str, key: Key, buckets: Columns) -> pa.Table:
        columns = {name: buckets[name] for name in STEPS.columns[: -len(PARTS)] if name != "mode_step"}
        columns["last_step"] = buckets["last_step"] + 1
        columns |= dict(zip(PARTS, parts_of(buckets).T, strict=True))
        return with_text_columns(pa.table(columns), STEP_BUCKETS, worker, *key)

    def stamps(self, worker: str) -> Iterator[Stamps]:
        """Yield the stamps of the steps of each mode, as far as they are stored."""
        stream = self.streams.get(worker)
        for key in sorted(stream.keys) if stream is not None else ():
            steps, mode_steps = (stream.columns([key], name)[0] for name in ("step", "mode_step"))  # type: ignore[union-attr]
            is_known = mode_steps >= 0
            yield key[0], steps[is_known], mode_steps[is_known]

    def durations(self, series: Series) -> tuple[Integers, Integers]:
        """Return the time of each step, ns, and the number of steps that it represents."""
        stream = self.streams[series[0]]
        return stream.columns([series[1]], "longest_ns")[0], stream.columns([series[1]], "count")[0]

    def between(self, series: Series, start_ns: int | None, end_ns: int | None) -> Edges | None:
        """Return the first and the last step that overlap a time interval."""
        if start_ns is None and end_ns is None:
            return self.bounds(series)
        rows = self.rows(series, STEPS.width)
        rows = select(rows, overlapping(rows, start_ns, end_ns))
        if not len(rows["step"]):
            return None
        exact = self.rows(series, 1, int(rows["step"].min()), int(rows["last_step"].max()) + 1)
        steps = exact["step"][overlapping(exact, start_ns, end_ns)]
        return (int(steps.min()), int(steps.max())) if len(steps) else None

    def parts_in(self, series: Series, start_ns: int | None, end_ns: int | None) -> Floats:
        """Return the time of each part in an interval, ns ``(PARTS,)``; partially covered steps count in part."""
        rows = self.rows(series, STEPS.width)
        is_inside = np.ones(len(rows["step"]), bool)
        if start_ns is not None:
            is_inside &= rows["start_ns"] >= start_ns
        if end_ns is not None:
            is_inside &= rows["end_ns"] <= end_ns
        sums: Floats = parts_of(select(rows, is_inside)).sum(axis=0)
        for index in np.flatnonzero(overlapping(rows, start_ns, end_ns) & ~is_inside):
            exact = self.rows(series, 1, int(rows["step"][index]), int(rows["last_step"][index]) + 1)
            sums = sums + within(exact, start_ns, end_ns)
        return sums

    def span_ns(self) -> tuple[int, int] | None:
        """Return the start of the first step and the end of the last."""
        spans = [part.metadata["steps"] for stream in self.streams.values() for part in stream.parts]
        spans = [span for span in (*spans, *(stream.tail.span_ns for stream in self.streams.values())) if span]
        return (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else None

    def rows_between(self, worker: str, start_ns: int, end_ns: int, max_bytes: int) -> pa.Table:
        """Return the timeline rows of a worker that overlap an interval, ordered by start.

        The rows are read from the segments; compacted files only tell where the interval begins there.

        Args:
            max_bytes: The maximum number of bytes to read.
        """
        begin: dict[str, int] = {}
        passed: dict[str, int] = {}
        size = max_bytes
        stream = self.streams.get(worker)
        marks = (mark for part in stream.parts for mark in part.metadata["marks"]) if stream is not None else ()
        for first_ns, last_ns, position in marks:
            passed = {**passed, **position}
            if last_ns < start_ns:
                begin = passed
            elif first_ns is not None and first_ns > end_ns:
                size = sum(passed.values()) - sum(begin.values())
                break
        reading = BulkStream(self._run, STEPS.part, worker, begin)
        rows = timeline_of(worker, reading.read(max(min(size, max_bytes), 1)))
        ends = pc.add(rows["start_ns"], rows["duration_ns"])
        ends_after_start = pc.or_(pc.greater(ends, start_ns), pc.equal(rows["start_ns"], start_ns))
        selected = rows.filter(pc.and_(ends_after_start, pc.less(rows["start_ns"], end_ns)))
        return selected.sort_by([("start_ns", "ascending")])

    def events(self, worker: str | None = None) -> pa.Table:
        """Return the timeline rows outside of steps, as ``Run.timeline``."""
        tables = [TIMELINE.empty_table()]
        for name, stream in self.streams.items():
            if worker in (None, name):
                tables += [with_text_columns(part.events(), TIMELINE, name) for part in stream.parts]
                tables.append(events_of(stream.tail.timeline))
        return pa.concat_tables(tables).sort_by([("start_ns", "ascending")])


def _read_tail(stream: Stream[SegmentSteps]) -> SegmentSteps:
    last_step = stream.parts[-1].metadata["step"] if stream.parts else -1
    return SegmentSteps(timeline_of(stream.name, stream.ranges), last_step)


def parts_of(rows: Columns) -> Floats:
    """Return the time of each part, ns ``(rows, PARTS)``."""
    return np.stack([rows[name] for name in PART_COLUMNS], axis=1).astype(np.float64)


class StepDistribution(TypedDict):
    """Statistics and a histogram of step times, in seconds."""

    count: int
    mean: float
    min: float
    p50: float
    p95: float
    p99: float
    max: float
    edges: list[float]
    """One more than there are counts."""
    counts: list[int]


def distribution(durations_ns: Integers, weights: Integers, bins: int) -> StepDistribution:
    """Return statistics and a histogram of step times.

    Units:
        Seconds. Bins have equal widths, or equal ratios if the longest step takes ten times as long as the shortest.
    """
    order = np.argsort(durations_ns, kind="stable")
    seconds, ordered = durations_ns[order] / 1e9, weights[order]
    cumulative = np.cumsum(ordered)
    shortest, longest = float(seconds[0]), float(seconds[-1])
    if shortest > 0 and longest > 10 * shortest:
        edges = np.geomspace(shortest, longest, bins + 1)
    else:
        edges = np.linspace(shortest, longest if longest > shortest else shortest + 1e-9, bins + 1)
    indices = np.clip(np.searchsorted(edges, seconds, side="right") - 1, 0, bins - 1)
    p50, p95, p99 = (float(seconds[np.searchsorted(cumulative, share * cumulative[-1])]) for share in _SHARES)
    return {
        "count": int(cumulative[-1]),
        "mean": float(np.average(seconds, weights=ordered)),
        "min": shortest,
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "max": longest,
        "edges": edges.tolist(),
        "counts": np.bincount(indices, weights=ordered, minlength=bins).astype(int).tolist(),
    }


def overlapping(rows: Columns, start_ns: int | None, end_ns: int | None) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that overlap an interval: they end after ``start_ns`` and start before ``end_ns``."""
    keep = np.ones(len(rows["step"]), bool)
    if start_ns is not None:
        keep &= (rows["end_ns"] > start_ns) | (rows["start_ns"] == start_ns)
    if end_ns is not None:
        keep &= rows["start_ns"] < end_ns
    return keep


def within(rows: Columns, start_ns: int | None, end_ns: int | None) -> Floats:
    """Return the time of each part in an interval, ns ``(PARTS,)``; partially covered rows count proportionally."""
    start = -(1 << 62) if start_ns is None else start_ns
    end = 1 << 62 if end_ns is None else end_ns
    lengths = np.maximum(rows["end_ns"] - rows["start_ns"], 1)
    inside = np.minimum(rows["end_ns"], end) - np.maximum(rows["start_ns"], start)
    result: Floats = np.clip(inside / lengths, 0.0, 1.0) @ parts_of(rows)
    return result
