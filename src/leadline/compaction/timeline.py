"""The steps of a worker, a row each, and the other rows of its timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.digest_steps import events_of, sums_of
from leadline.analysis.rollup_schema import columns_of_steps
from leadline.analysis.steps import read_steps
from leadline.compaction.parts import FormWriter
from leadline.reader.bulk import Range
from leadline.reader.compact import packed
from leadline.reader.tables import TIMELINE, named
from leadline.records.names import MODES, PHASES

_SETTLED_NS: Final = 10_000_000_000
"""So long after a step's end all its rows are written: those of other threads and of devices come later."""


def write_steps(
    writer: FormWriter, ranges: Sequence[Range], *, worker: str, before: Mapping[str, Any], is_whole: bool
) -> dict[str, Any]:
    """Write the steps of which everything was read.

    Args:
        before: What was said of the go before.
        is_whole: Nothing more can come: no step is held back.
    Returns:
        What there is to say: ``position`` is where the next go begins, ``step`` the last that was written, ``events``
        the other rows of the batches before that position.
    """
    told = int(before.get("step", -1))
    tables = [timeline_of(worker, each) for each in ranges]
    rows = pa.concat_tables(tables)
    last = _last_settled(rows, is_whole=is_whole)
    kept = rows.filter(pc.and_(pc.greater(rows["step"], told), pc.less_equal(rows["step"], last)))
    for sums in sums_of(read_steps(kept)):
        writer.add((sums.mode,), columns_of_steps(sums))
    position: dict[str, int] = {}
    events = []
    for each, table in zip(ranges, tables, strict=True):
        batches = _batches_until(each, table, last)
        if each.name not in position or position[each.name] == each.begin:
            position[each.name] = int(each.ends[batches - 1]) if batches else each.begin
            events.append(events_of(table.slice(0, int(each.rows[:batches].sum()))))
    ends = pc.add(rows["start_ns"], rows["duration_ns"])
    span = pc.min_max(kept["start_ns"]).as_py()
    return {
        "position": position,
        "step": max(told, last),
        "start_ns": span["min"],
        "end_ns": pc.max(ends).as_py(),
        "steps": steps_span(kept),
        "events": packed(pa.concat_tables(events)),
        "marks": [[span["min"], pc.max(ends).as_py(), position]],
    }


def steps_span(rows: pa.Table) -> list[int] | None:
    """When the first step began and the last ended; None: there is none."""
    heads = rows.filter(pc.and_(pc.equal(rows["name"], "step"), pc.is_in(rows["phase"], pa.array(MODES))))
    if not heads.num_rows:
        return None
    ends = pc.add(heads["start_ns"], heads["duration_ns"])
    return [pc.min(heads["start_ns"]).as_py(), pc.max(ends).as_py()]


def timeline_of(worker: str, each: Range) -> pa.Table:
    """The rows of a range as ``Run.timeline`` has them."""
    return named(each.table, TIMELINE, worker)


def _last_settled(rows: pa.Table, *, is_whole: bool) -> int:
    """The last step of which every row was read."""
    is_head = pc.and_(pc.equal(rows["name"], "step"), pc.is_in(rows["phase"], pa.array(MODES)))
    heads = rows.filter(is_head)
    if not heads.num_rows:
        return -1
    steps = heads["step"].to_numpy()
    if is_whole:
        return int(steps.max())
    ends = heads["start_ns"].to_numpy() + heads["duration_ns"].to_numpy()
    open_steps = steps[ends >= ends.max() - _SETTLED_NS]
    return int(open_steps.min()) - 1


def _batches_until(each: Range, table: pa.Table, last: int) -> int:
    """How many batches stand before the first with a row of a later step."""
    is_part = pc.and_(pc.is_in(table["name"], pa.array(["step", *PHASES])), pc.is_in(table["phase"], pa.array(MODES)))
    is_later = is_part.to_numpy() & (table["step"].to_numpy() > last)
    if not is_later.any():
        return len(each.rows)
    return int(each.of_rows()[np.argmax(is_later)])
