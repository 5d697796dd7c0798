"""Compaction of a run: stream by stream, in passes of limited size."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.segment_rows import (
    SegmentRows,
    SegmentSamples,
    SegmentSteps,
    SegmentValues,
    events_of,
    timeline_of,
)
from leadline.compaction.part_writer import merge_parts, write_part
from leadline.reader import liveness
from leadline.reader.compacted import (
    EVENT_COLUMNS,
    LARGE_BYTES,
    DamagedPartError,
    Part,
    PartChain,
    compact_folders,
    streams_of,
)
from leadline.reader.incarnations import read_replacements
from leadline.reader.rollups import SAMPLES, SCHEMAS, VALUES, RollupSchema
from leadline.reader.segments import Range
from leadline.reader.stream import BulkStream
from leadline.records.names import MODES, PHASES
from leadline.store import layout
from leadline.store.codec import tensor_fields
from leadline.store.documents import make_subfolder

_SETTLED_NS: Final = 10_000_000_000
"""Time after a step's end until all its rows are written, including late ones of other threads and devices."""

_PASS_BYTES: Final = 12 << 20
"""Size of one pass."""
_MIN_BYTES: Final = 8 << 20
"""Minimum size of a pass while the run is in progress."""
_MIN_FINAL_BYTES: Final = 64 << 10
_MERGE_COUNT: Final = 8
"""Number of files that are merged into one."""


@dataclass(slots=True)
class _Stream:
    """One stream with its derived files."""

    schema: RollupSchema
    name: str
    chain: PartChain
    left_bytes: int = 0

    def open(self, run: str) -> BulkStream:
        """Open the uncompacted rest."""
        return BulkStream(run, self.schema.part, self.name, self.chain.position)

    def refresh(self, run: str) -> None:
        """Look for new compacted files and new data."""
        self.chain.refresh()
        self.left_bytes = self.open(run).left_bytes


class Compactor:
    """Derives sorted files from a run's segments; nothing else of the run is changed.

    Args:
        run: The run directory.
        folder: The parent of ``compact``: the run directory, or a folder in the user's cache.
    """

    def __init__(self, run: str, folder: str | None = None) -> None:
        self.run, self.folder = run, folder or writable_folder(run)
        setting = os.environ.get("LEADLINE_COMPACT_BYTES", "")
        self._large_bytes = int(setting) if setting.isdecimal() else LARGE_BYTES
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._blocked: set[tuple[str, str]] = set()

    @contextmanager
    def lock(self, *, wait: bool = False) -> Iterator[bool]:
        """Hold the lock of the run's compaction; yield False if another process holds it.

        Args:
            wait: Wait for the other process.
        """
        make_subfolder(os.path.join(self.folder, layout.COMPACT))
        path = os.path.join(self.folder, layout.COMPACT_LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)

    def compact(self, *, is_final: bool | None = None) -> int:
        """Compact all streams with enough new data.

        Args:
            is_final: Whether small amounts are compacted too; None: if the run is over.
        Returns:
            The number of passes.
        """
        is_over = liveness.is_over(self.run)
        if not is_over and not read_replacements(self.run).is_begun:
            return 0  # what the last incarnation replaces is not known yet
        self._remove_partial_files()
        self._refresh()
        if is_final is None:
            is_final = is_over
        passes = 0
        while (stream := self._next(is_final=is_final)) is not None:
            passes += self._run_pass(stream, is_over=is_over)
        return passes

    def is_large(self) -> bool:
        """Return whether the run is large enough for compaction."""
        self._refresh()
        return sum(stream.left_bytes for stream in self._streams.values()) >= self._large_bytes or any(
            stream.chain.parts for stream in self._streams.values()
        )

    def _remove_partial_files(self) -> None:
        """Remove incomplete files of a killed process."""
        for folder, _, names in os.walk(os.path.join(self.folder, layout.COMPACT)):
            for name in names:
                if name.endswith(".part"):
                    os.unlink(os.path.join(folder, name))

    def _refresh(self) -> None:
        for schema in SCHEMAS:
            for name in streams_of(self.run, schema.part):
                if (schema.part, name) not in self._streams:
                    chain = PartChain(self.folder, schema, name, reads_merged=False)  # files are merged only once
                    self._streams[schema.part, name] = _Stream(schema, name, chain)
        for stream in self._streams.values():
            stream.refresh(self.run)

    def _next(self, *, is_final: bool) -> _Stream | None:
        """Return the stream with the most new data, if that is enough."""
        open_streams = {key: stream for key, stream in self._streams.items() if key not in self._blocked}
        largest = max(open_streams.values(), key=lambda stream: stream.left_bytes, default=None)
        smallest_pass = min(_MIN_FINAL_BYTES, self._large_bytes)
        share = min(_MIN_BYTES, 2 * LARGE_BYTES // max(len(open_streams), 1))
        min_bytes = smallest_pass if is_final else max(smallest_pass, share)
        return largest if largest is not None and largest.left_bytes >= min_bytes else None

    def _run_pass(self, stream: _Stream, *, is_over: bool) -> int:
        """Run one pass; return 0 if nothing could be done, then the stream is skipped from now on."""
        source = stream.open(self.run)
        ranges = source.read(_PASS_BYTES)
        is_complete = is_over and source.left_bytes == 0
        if not ranges or not self._write(stream, ranges, source, is_complete=is_complete):
            self._blocked.add((stream.schema.part, stream.name))
            return 0
        before = stream.chain.position
        stream.chain.refresh()
        if stream.chain.position == before:  # the written file cannot be read
            self._blocked.add((stream.schema.part, stream.name))
            return 0
        self._merge(stream)
        stream.refresh(self.run)
        return 1

    def _write(self, stream: _Stream, ranges: list[Range], source: BulkStream, *, is_complete: bool) -> bool:
        """Write a file; return whether it extends the one before."""
        rows: SegmentRows
        metadata: dict[str, Any] = {"position": source.position}
        events = None
        if stream.schema is SAMPLES:
            rows = SegmentSamples(ranges)
        elif stream.schema is VALUES:
            rows = SegmentValues(ranges)
            tensors = {info.name: info for info in rows.tensors}
            metadata["tensors"] = [tensor_fields(tensor) for tensor in tensors.values()]
        else:
            before = stream.chain.parts[-1].metadata if stream.chain.parts else {}
            settled = settled_steps(ranges, worker=stream.name, before=before, is_complete=is_complete)
            rows, events, metadata = settled.rows, settled.events, settled.metadata
            metadata["position"] = {**stream.chain.position, **metadata["position"]}
            if metadata["position"] == stream.chain.position:
                return False
        metadata["end_ns"] = rows.latest_ns
        passes = (stream.chain.next_pass, stream.chain.next_pass)
        write_part(self.folder, stream.schema, stream.name, passes, [rows], metadata, events)
        return True

    def _merge(self, stream: _Stream) -> None:
        """Merge small files while there are enough of them."""
        while (small := _mergeable(stream.chain)) is not None:
            try:
                merge_parts(self.folder, stream.schema, stream.name, small)
            except DamagedPartError as error:
                stream.chain.forget(str(error))
                os.unlink(str(error))
            stream.chain.refresh()


def _mergeable(chain: PartChain) -> list[Part] | None:
    """Return consecutive files of one pass each, if there are enough to merge."""
    for index in range(len(chain.parts) - _MERGE_COUNT + 1):
        group = chain.parts[index : index + _MERGE_COUNT]
        if all(part.last == part.first for part in group):  # only once: merging large files takes much memory
            return group
    return None


def writable_folder(run: str) -> str:
    """Return where derived files are written: in the run directory, or if that is read-only in the user's cache."""
    inside, outside = compact_folders(run)
    exists = os.path.isdir(os.path.join(inside, layout.COMPACT))
    return inside if os.access(os.path.join(inside, layout.COMPACT) if exists else inside, os.W_OK) else outside


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
