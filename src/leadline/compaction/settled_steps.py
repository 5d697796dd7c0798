"""The steps of a timeline whose rows have all been read, for compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.segment_rows import SegmentSteps, events_of, timeline_of
from leadline.reader.compacted import EVENT_COLUMNS
from leadline.reader.segments import Range
from leadline.records.names import MODES, PHASES

_SETTLED_NS: Final = 10_000_000_000
"""Time after a step's end until all its rows are written, including late ones of other threads and devices."""


@dataclass(frozen=True, slots=True)
class SettledSteps:
    """The settled part of a pass."""

    rows: SegmentSteps
    events: pa.Table
    """The rows outside of steps before the position, without the worker."""
    metadata: dict[str, Any]
    """``position`` is the start of the next pass, ``step`` the last written step, ``steps`` their time span."""


def settled_steps(
    ranges: Sequence[Range], *, worker: str, before: Mapping[str, Any], is_complete: bool
) -> SettledSteps:
    """Return the steps whose rows have all been read.

    Args:
        before: The metadata of the previous pass.
        is_complete: Whether no more rows can follow, so that no step is held back.
    """
    last_written = int(before.get("step", -1))
    tables = [timeline_of(worker, [range_]) for range_ in ranges]
    timeline = pa.concat_tables(tables)
    last = _last_settled(timeline, is_complete=is_complete)
    rows = SegmentSteps(timeline, last_written, last)
    position: dict[str, int] = {}
    events = []
    for range_, table in zip(ranges, tables, strict=True):
        batches = _batches_until(range_, table, last)
        if range_.name not in position or position[range_.name] == range_.begin:
            position[range_.name] = int(range_.ends[batches - 1]) if batches else range_.begin
            events.append(events_of(table.slice(0, int(range_.rows[:batches].sum()))))
    metadata = {
        "step": max(last_written, last),
        "steps": rows.span_ns,
        "marks": [[rows.first_ns, rows.latest_ns, position]],
    }
    return SettledSteps(rows, pa.concat_tables(events).select(EVENT_COLUMNS), {"position": position, **metadata})


def _last_settled(rows: pa.Table, *, is_complete: bool) -> int:
    """Return the last step whose rows have all been read."""
    is_head = pc.and_(pc.equal(rows["name"], "step"), pc.is_in(rows["phase"], pa.array(MODES)))
    heads = rows.filter(is_head)
    if not heads.num_rows:
        return -1
    steps = heads["step"].to_numpy()
    if is_complete:
        return int(steps.max())
    ends = heads["start_ns"].to_numpy() + heads["duration_ns"].to_numpy()
    open_steps = steps[ends >= ends.max() - _SETTLED_NS]
    return int(open_steps.min()) - 1


def _batches_until(range_: Range, table: pa.Table, last: int) -> int:
    """Return the number of batches before the first one with a row of a later step."""
    is_part = pc.and_(pc.is_in(table["name"], pa.array(["step", *PHASES])), pc.is_in(table["phase"], pa.array(MODES)))
    is_later = is_part.to_numpy() & (table["step"].to_numpy() > last)
    if not is_later.any():
        return len(range_.rows)
    return int(range_.batch_of_rows()[np.argmax(is_later)])
