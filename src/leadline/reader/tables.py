"""Arrow tables of the records of a run, in long format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.reader.segments import Range, SegmentInfo
from leadline.reader.table_rows import TableRow
from leadline.records.metric import Channel
from leadline.store import layout
from leadline.store.documents import read_lines
from leadline.store.run_files import subfolders

STATISTICS: Final = pa.schema(
    [
        ("step", pa.int64()),
        ("mode", pa.string()),
        ("mode_step", pa.int64()),
        ("time_ns", pa.int64()),
        ("worker", pa.string()),
        ("value", pa.float64()),
    ]
)
SERIES: Final = pa.schema([pa.field("name", pa.string()), pa.field("statistic", pa.string()), *STATISTICS])
WIDE: Final = pa.schema([("step", pa.int64()), ("mode", pa.string()), ("worker", pa.string()), ("time_ns", pa.int64())])
SYSTEM: Final = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("node", pa.string()),
        ("kind", pa.string()),
        ("device", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
    ]
)
TIMELINE: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("name", pa.string()),
        ("phase", pa.string()),
        ("step", pa.int64()),
        ("start_ns", pa.int64()),
        ("duration_ns", pa.int64()),
        ("thread", pa.int64()),
        ("args", pa.string()),
    ]
)
FINDINGS: Final = pa.schema(
    [
        ("rule", pa.string()),
        ("id", pa.int64()),
        ("step", pa.int64()),
        ("last_step", pa.int64()),
        ("is_open", pa.bool_()),
        ("time_ns", pa.int64()),
        ("message", pa.string()),
        ("suggestion", pa.string()),
        ("tensors", pa.list_(pa.string())),
        ("tensor_count", pa.int64()),
        ("worker", pa.string()),
        ("count", pa.int64()),
        ("evidence", pa.string()),
        ("global_step", pa.int64()),
    ]
)


def column_table(worker: str, ranges: Sequence[Range], column: int) -> pa.Table:
    """Return one column of ranges of series that share a layout, as ``STATISTICS``; absent readings are NaN."""
    step, mode_step, time_ns = (
        np.concatenate([batches.numbers(name) for batches in ranges]) for name in ("step", "mode_step", "time_ns")
    )
    mode = pa.chunked_array([batches.table["mode"].chunk(0) for batches in ranges])
    values = np.concatenate([batches.numbers("values")[:, column] for batches in ranges])
    workers = pa.repeat(pa.scalar(worker, pa.string()), len(values))
    return pa.table([step, mode, mode_step, time_ns, workers, values], schema=STATISTICS)


def wide_table(worker: str, ranges: Sequence[Range], columns: Mapping[str, int]) -> pa.Table:
    """Return columns of ranges of series that share a layout: the fields of ``WIDE``, and one for each statistic."""
    parts = {statistic: column_table(worker, ranges, column) for statistic, column in columns.items()}
    rows = next(iter(parts.values()))
    return pa.table(
        {
            "step": rows["mode_step"],
            "mode": rows["mode"],
            "worker": rows["worker"],
            "time_ns": rows["time_ns"],
            **{statistic: part["value"] for statistic, part in parts.items()},
        }
    )


def join_wide(parts: Sequence[pa.Table]) -> pa.Table:
    """Join the results of ``wide_table``: one row per mode, step and worker, the statistics ordered by name."""
    table = pa.concat_tables([WIDE.empty_table(), *parts], promote_options="default")
    names = sorted(set(table.column_names) - set(WIDE.names))
    first = [(name, "first") for name in ("time_ns", *names)]  # a step has one value of each statistic; skips null
    joined = table.group_by(["step", "mode", "worker"], use_threads=False).aggregate(first)
    joined = joined.rename_columns([name.removesuffix("_first") for name in joined.column_names])
    order = [(name, "ascending") for name in ("mode", "step", "worker")]
    return joined.select([*WIDE.names, *names]).sort_by(order)


def with_text_columns(table: pa.Table, schema: pa.Schema, *texts: str) -> pa.Table:
    """Prepend a column for each text, with the same value in every row."""
    front = [pa.repeat(pa.scalar(text, pa.string()), table.num_rows) for text in texts]
    return pa.table([*front, *table.columns], schema=schema)


def concatenate(tables: Sequence[pa.Table], schema: pa.Schema, order: Iterable[str] = ()) -> pa.Table:
    """Concatenate tables and sort the rows."""
    if not tables:
        return schema.empty_table()
    table = pa.concat_tables(tables)
    if len(tables) == 1 and tuple(order)[:1] == ("step",) and bool(np.all(np.diff(table["step"].to_numpy()) >= 0)):
        return table
    keys = [(name, "ascending") for name in order]
    return table.sort_by(keys) if keys else table.combine_chunks()


def _samples(node: str, segment: SegmentInfo, table: pa.Table, is_selected: Callable[[Channel], bool]) -> pa.Table:
    """Return the selected channels of rows of a segment as ``SYSTEM``."""
    keep = np.array([is_selected(channel) for channel in segment.channels], bool)
    rows = table.filter(pa.array(keep[table["channel"].to_numpy()]))
    texts = [
        pa.array([getattr(channel, name) for channel in segment.channels], pa.string()).take(rows["channel"])
        for name in ("kind", "device", "metric")
    ]
    nodes = pa.repeat(pa.scalar(node, pa.string()), rows.num_rows)
    return pa.table([rows["time_ns"], nodes, *texts, rows["value"]], schema=SYSTEM)


def between(table: pa.Table, column: str, start: int | None, end: int | None) -> pa.Table:
    """Return the rows with ``start <= value < end``; None means unbounded."""
    if start is not None:
        table = table.filter(pc.greater_equal(table[column], start))
    return table if end is None else table.filter(pc.less(table[column], end))


def filter_equal(table: pa.Table, **values: str | None) -> pa.Table:
    """Return the rows whose columns have these values; None matches any value."""
    for column, value in values.items():
        if value is not None:
            table = table.filter(pc.equal(table[column], value))
    return table


def system_metrics(
    archived: Mapping[str, Sequence[Range]],
    *,
    kind: str | None = None,
    device: str | None = None,
    metric: str | None = None,
    node: str | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> pa.Table:
    """Return the system metrics as ``SYSTEM``; the arguments are those of ``Run.system_metrics``."""

    def is_selected(channel: Channel) -> bool:
        pairs = ((kind, channel.kind), (device, channel.device), (metric, channel.metric))
        return all(expected in (None, actual) for expected, actual in pairs)

    found = [
        _samples(name, segment, _rows(list(batches)), is_selected)
        for name, ranges in archived.items()
        if node in (None, name)
        for segment, batches in groupby(ranges, key=attrgetter("info"))
    ]
    return concatenate([between(table, "time_ns", start_ns, end_ns) for table in found], SYSTEM, ("time_ns",))


def timeline(
    archived: Mapping[str, Sequence[Range]],
    *,
    worker: str | None = None,
    name: str | None = None,
    phase: str | None = None,
) -> pa.Table:
    """Return the events of the workers as ``TIMELINE``; the arguments are those of ``Run.timeline``."""
    chosen = [(owner, ranges) for owner, ranges in archived.items() if worker in (None, owner)]
    found = [with_text_columns(_rows(ranges), TIMELINE, owner) for owner, ranges in chosen]
    return concatenate([filter_equal(table, name=name, phase=phase) for table in found], TIMELINE, ("start_ns",))


def _rows(ranges: Sequence[Range]) -> pa.Table:
    return pa.concat_tables([batches.table for batches in ranges])


def findings_table(run: str) -> pa.Table:
    """Return the latest version of every finding, as ``FINDINGS``."""
    findings: dict[tuple[str, int], TableRow] = {}
    for alias in subfolders(os.path.join(run, layout.RULES)):
        for line in read_lines(os.path.join(run, layout.rule_findings(alias))):
            if is_finding(line):
                findings[alias, line["id"]] = {
                    "global_step": line["step"],  # runs of earlier versions have only this step
                    **line,
                    "evidence": json.dumps(line["evidence"]),
                }
    rows = [{name: finding.get(name) for name in FINDINGS.names} for finding in findings.values()]
    try:
        table = pa.Table.from_pylist(rows, schema=FINDINGS)
    except (pa.ArrowException, OverflowError):  # a value of another type or size, which Leadline does not write
        table = pa.Table.from_pylist([row for row in rows if _is_row(row)], schema=FINDINGS)
    return table.sort_by([("step", "ascending"), ("rule", "ascending")])


def _is_row(row: TableRow) -> bool:
    try:
        pa.Table.from_pylist([row], schema=FINDINGS)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def is_finding(line: Any) -> bool:
    """Return whether a line of ``findings.jsonl`` is valid."""
    if not isinstance(line, dict):
        return False
    has_texts = all(isinstance(line.get(name), str) for name in ("rule", "message", "suggestion"))
    has_numbers = all(
        isinstance(line.get(name), int) for name in ("id", "step", "last_step", "is_open", "time_ns", "count")
    )
    tensors = line.get("tensors")
    has_tensors = isinstance(tensors, list) and all(isinstance(tensor, str) for tensor in tensors)
    return (
        has_texts and has_numbers and has_tensors and isinstance(line.get("tensor_count"), int) and "evidence" in line
    )
