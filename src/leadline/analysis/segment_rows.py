"""Rows of segments in the form in which they are compacted: samples of a node, steps and values of a worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.steps import Floats, Integers, read_steps
from leadline.reader.compacted import between
from leadline.reader.feed import CLOCK
from leadline.reader.rollups import PART_COLUMNS, SAMPLES, STEPS, VALUES, Columns, Key, RollupSchema, select
from leadline.reader.segments import Range
from leadline.reader.tables import TIMELINE, with_text_columns
from leadline.records.names import MODES, PHASES
from leadline.records.series import SeriesLayout, TensorInfo


class Source(Protocol):
    """Rows of one stream: of a compacted file or of segments."""

    @property
    def keys(self) -> Collection[Key]:
        """The keys of the rows."""

    def __len__(self) -> int: ...

    def read(self, keys: Sequence[Key], width: int = 0, low: int | None = None, high: int | None = None) -> Columns:
        """Return rows of some keys, as ``Part.read``; segments have single rows only."""


class SegmentRows(Source, Protocol):
    """Rows of the segments of one stream."""

    @property
    def latest_ns(self) -> int | None:
        """The time of the latest row; None if there is none."""

    def bounds(self, key: Key) -> tuple[int, int] | None:
        """Return the first and the last value of a key's axis; None if it has no rows."""


class _LongRows:
    """Rows with the number of their key."""

    def __init__(self, schema: RollupSchema, keys: Sequence[Key], numbers: Integers, columns: Columns) -> None:
        self.keys = keys
        self._axis, self._numbers, self._columns = schema.axis, numbers, columns

    def __len__(self) -> int:
        return len(self._numbers)

    def read(self, keys: Sequence[Key], width: int = 0, low: int | None = None, high: int | None = None) -> Columns:
        places = {key: place for place, key in enumerate(keys)}
        numbers = np.array([places.get(key, -1) for key in self.keys], np.int64)[self._numbers]
        keep = (numbers >= 0) & between(self._columns[self._axis], low, high)
        return {"key": numbers[keep], **{name: column[keep] for name, column in self._columns.items()}}

    def bounds(self, key: Key) -> tuple[int, int] | None:
        values = self.read([key])[self._axis]
        return (int(values.min()), int(values.max())) if len(values) else None


class SegmentSamples(_LongRows):
    """Samples of a node."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        numbers: dict[Key, int] = {}
        indices, times, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        for batches in ranges:
            keys = [(channel.kind, channel.device, channel.metric) for channel in batches.info.channels]
            of_channel = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
            indices.append(of_channel[batches.numbers("channel")])
            times.append(batches.numbers("time_ns"))
            values.append(batches.numbers("value"))
        columns = {"time_ns": np.concatenate(times), "total": np.concatenate(values)}
        super().__init__(SAMPLES, tuple(numbers), np.concatenate(indices), columns)
        self.latest_ns = int(columns["time_ns"].max()) if len(self) else None


class SegmentSteps(_LongRows):
    """Steps of a worker, and the other rows of its timeline.

    Args:
        timeline: The rows of the segments, as ``Run.timeline``.
        after: Steps up to this one are left out.
        last: Steps after this one are left out; None for all.
    """

    def __init__(self, timeline: pa.Table, after: int = -1, last: int | None = None) -> None:
        self.timeline = timeline
        ends = pc.add(timeline["start_ns"], timeline["duration_ns"])
        self.latest_ns: int | None = pc.max(ends).as_py()
        high = None if last is None else last + 1
        kept = timeline.filter(pa.array(between(timeline["step"].to_numpy(), after + 1, high)))
        self.first_ns: int | None = pc.min(kept["start_ns"]).as_py()
        steps = read_steps(kept)
        times = np.rint(steps.phases * steps.weight[:, None]).astype(np.int64)
        modes, numbers = np.unique(steps.mode, return_inverse=True)
        columns: Columns = {
            "step": steps.step,
            "mode_step": steps.mode_step,
            "start_ns": steps.start_ns,
            "longest_ns": steps.duration_ns,
            "count": steps.weight,
            **dict(zip(PART_COLUMNS, times.T, strict=True)),
        }
        super().__init__(STEPS, [(MODES[mode],) for mode in modes], numbers, columns)
        self.span_ns = None
        if len(self):
            self.span_ns = (int(steps.start_ns.min()), int((steps.start_ns + steps.duration_ns).max()))


class SegmentValues:
    """Scalars and statistics of a worker; wide, since a captured step has the values of all its tensors."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._blocks = list(_blocks(ranges))
        self.keys = list(dict.fromkeys(key for block in self._blocks for key in block.columns))
        self.tensors: list[TensorInfo] = [
            tensor for block in self._blocks for tensor in block.layout.tensors if tensor.name != CLOCK
        ]
        self.latest_ns = max((int(block.rows["time_ns"].max()) for block in self._blocks), default=None)

    def __len__(self) -> int:
        return sum(len(block.values) * len(block.columns) for block in self._blocks)

    def read(self, keys: Sequence[Key], width: int = 0, low: int | None = None, high: int | None = None) -> Columns:
        parts = [block.read(keys, low, high) for block in self._blocks]
        names = ("key", *VALUES.row_columns)
        return {name: np.concatenate([VALUES.empty()[name], *(part[name] for part in parts)]) for name in names}

    def bounds(self, key: Key) -> tuple[int, int] | None:
        steps = [block.rows["step"] for block in self._blocks if key in block.columns]
        return (min(int(step.min()) for step in steps), max(int(step.max()) for step in steps)) if steps else None


class _Block:
    """Rows of one layout and mode."""

    def __init__(self, layout: SeriesLayout, mode: str, rows: Columns, values: Floats) -> None:
        self.layout, self.rows, self.values = layout, rows, values
        names = [tensor.name for tensor in layout.tensors]
        self.columns: dict[Key, int] = {
            (statistic, names[index], mode): column
            for column, (index, statistic) in enumerate(layout.columns)
            if names[index] != CLOCK
        }

    def read(self, keys: Sequence[Key], low: int | None, high: int | None) -> Columns:
        """Return the rows of some keys, one key after the other."""
        chosen = [(place, self.columns[key]) for place, key in enumerate(keys) if key in self.columns]
        places, columns = np.array(chosen, np.int64).reshape(-1, 2).T
        keep = between(self.rows["step"], low, high)
        rows, values = self.rows, self.values[:, columns]
        if not keep.all():
            rows, values = select(rows, keep), values[keep]
        return {
            "key": np.repeat(places, len(values)),
            **{name: np.tile(column, len(places)) for name, column in rows.items()},
            "value": np.ascontiguousarray(values.T, np.float64).reshape(-1),
        }


def _blocks(ranges: Sequence[Range]) -> Iterator[_Block]:
    names = ("step", "mode_step", "time_ns", "values")
    by_layout: dict[tuple[SeriesLayout, str], list[list[Floats]]] = {}
    for batches in ranges:
        assert batches.info.layout is not None
        columns = [batches.numbers(name) for name in names]
        for mode in pc.unique(batches.table["mode"]).to_pylist():
            keep = pc.equal(batches.table["mode"], mode).to_numpy()
            rows = columns if keep.all() else [column[keep] for column in columns]
            by_layout.setdefault((batches.info.layout, mode), []).append(rows)
    for (shared, mode), groups in by_layout.items():
        rows = [np.concatenate(pieces) if len(groups) > 1 else pieces[0] for pieces in zip(*groups, strict=True)]
        yield _Block(shared, mode, dict(zip(names[:-1], rows[:-1], strict=True)), rows[-1])


def timeline_of(worker: str, ranges: Sequence[Range]) -> pa.Table:
    """Return the timeline rows of ranges, as ``Run.timeline``."""
    tables = [with_text_columns(batches.table, TIMELINE, worker) for batches in ranges]
    return pa.concat_tables([TIMELINE.empty_table(), *tables])


def events_of(timeline: pa.Table) -> pa.Table:
    """Return the rows of a timeline that are neither steps nor their phases."""
    is_part = pc.is_in(timeline["name"], pa.array(["step", *PHASES]))
    is_of_mode = pc.is_in(timeline["phase"], pa.array(MODES))
    return timeline.filter(pc.invert(pc.and_(is_part, is_of_mode)))
