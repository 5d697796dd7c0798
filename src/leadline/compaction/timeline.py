"""Compaction of a worker's timeline: one row for each step, and the other events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest_steps import events_of, sums_of
from leadline.analysis.rollup_schema import columns_of_steps
from leadline.analysis.steps import read_steps
from leadline.compaction.parts import RollupWriter
from leadline.reader.compact import encode_table
from leadline.reader.segments import Range
from leadline.reader.tables import TIMELINE, with_text_columns
from leadline.records.names import MODES, PHASES

_SETTLED_NS: Final = 10_000_000_000
"""Time after a step's end until all its rows are written, including late ones of other threads and devices."""


def write_steps(
    writer: RollupWriter, ranges: Sequence[Range], *, worker: str, before: Mapping[str, Any], is_complete: bool
) -> dict[str, Any]:
    """Write the steps whose rows have all been read.

    Args:
        before: The metadata of the previous pass.
        is_complete: Whether no more rows can follow, so that no step is held back.
    Returns:
        The metadata: ``position`` is the start of the next pass, ``step`` the last written step, ``events`` the other
        rows of the batches before that position.
    """
    last_written = int(before.get("step", -1))
    tables = [timeline_of(worker, range_) for range_ in ranges]
    rows = pa.concat_tables(tables)
    last = _last_settled(rows, is_complete=is_complete)
    kept = rows.filter(pc.and_(pc.greater(rows["step"], last_written), pc.less_equal(rows["step"], last)))
    for sums in sums_of(read_steps(kept)):
        writer.add((sums.mode,), columns_of_steps(sums))
    position: dict[str, int] = {}
    events = []
    for range_, table in zip(ranges, tables, strict=True):
        batches = _batches_until(range_, table, last)
        if range_.name not in position or position[range_.name] == range_.begin:
            position[range_.name] = int(range_.ends[batches - 1]) if batches else range_.begin
            events.append(events_of(table.slice(0, int(range_.rows[:batches].sum()))))
    ends = pc.add(rows["start_ns"], rows["duration_ns"])
    span = pc.min_max(kept["start_ns"]).as_py()
    return {
        "position": position,
        "step": max(last_written, last),
        "start_ns": span["min"],
        "end_ns": pc.max(ends).as_py(),
        "steps": steps_span(kept),
        "events": encode_table(pa.concat_tables(events)),
        "marks": [[span["min"], pc.max(ends).as_py(), position]],
    }


def steps_span(rows: pa.Table) -> list[int] | None:
    """Return the start of the first step and the end of the last; None if there are none."""
    heads = rows.filter(pc.and_(pc.equal(rows["name"], "step"), pc.is_in(rows["phase"], pa.array(MODES))))
    if not heads.num_rows:
        return None
    ends = pc.add(heads["start_ns"], heads["duration_ns"])
    return [pc.min(heads["start_ns"]).as_py(), pc.max(ends).as_py()]


def timeline_of(worker: str, range_: Range) -> pa.Table:
    """Return the rows of a range with the columns of ``Run.timeline``."""
    return with_text_columns(range_.table, TIMELINE, worker)


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
