"""The background writer of a worker: flushes queued rows, events and captures to the kernel every 250 ms."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leadline.records.clocks import wall_offset_ns
from leadline.records.documents import DroppedData, WorkerDocument
from leadline.records.event import Event
from leadline.records.incarnations import WorkerStart
from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.store import codec, layout
from leadline.store.codec import phase_columns
from leadline.store.documents import InPlaceDocument, encode, make_subfolder
from leadline.store.row_batches import Row, in_batches
from leadline.store.segments import SEGMENT_BYTES, Segment, SegmentFolder
from leadline.store.tensors import BufferPool, CaptureForm, HostBuffer, TensorCapture, TensorFolder
from leadline.store.written_tensors import WrittenTensors

FLUSH_SECONDS: Final = 0.25
_DOCUMENT_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 60.0
_MAX_OPEN_SEGMENTS: Final = 64
_MAX_EVENTS: Final = 4096
_MAX_STEPS: Final = 128
"""Maximum number of steps whose phases become one batch, so that the GIL is held for at most a millisecond."""

HEARTBEAT_LAYOUT: Final = SeriesLayout((TensorInfo("clock", ("clock",), (), "float64"),), ((0, "value"),))
"""Layout of a heartbeat row, which is written when steps pass without captures."""
SKIPPED_LAYOUT: Final = SeriesLayout((TensorInfo("clock", ("clock",), (), "float64"),), ((0, "skipped"),))
"""Layout of the row of a step that a gradient scaler skipped; its value is 1."""


@dataclass(slots=True)
class _Stream:
    """The open segments of one part of a worker, and their common sequence."""

    folder: SegmentFolder
    sequence: int = 0
    open: dict[int, Segment] = field(default_factory=dict)
    retry_at: float = 0.0


class Writer:
    """Writes the data of one worker to disk in the background.

    **Never waits** - ``put_*`` only append to a queue; data that arrive while it is full or the disk refuses writes
    are counted as dropped and reported in the worker's document.

    **Order** - batches have one gap-free sequence; ``complete_step`` is the step of the last ``finish_step`` before
    their rows were taken from the queue.
    """

    def __init__(
        self,
        run: str,
        worker: str,
        *,
        host_bytes: int,
        disk_bytes: int | None,
        document: Callable[[], WorkerDocument],
        guarded: Callable[[Callable[[], None]], Callable[[], None]],
        before_flush: Callable[[], None] = lambda: None,
        before: WorkerDocument | None = None,
        start: WorkerStart | None = None,
    ) -> None:
        """
        Args:
            before: The last document of the process whose streams this one continues; None: it begins them.
            start: Where it continues them; None: it begins them.
            document: Returns the content of the worker's document; called in the writer's thread.
            before_flush: Called in the writer's thread before it writes; it must not wait for another thread.
            guarded: Wraps the function of the writer's thread, so that an error of Leadline is reported and ends there.
        """
        codec.load()
        self.run, self.worker = run, worker
        before, start = before or WorkerDocument(), start or WorkerStart()
        self.bytes, self.rows = before.bytes, before.rows
        self.dropped: DroppedData | None = before.lost
        self._describe, self._before_flush = document, before_flush
        self._pool = BufferPool(host_bytes)
        self._row_limit = max(host_bytes // 4, 1 << 20)
        self._row_bytes, self._disk_bytes = 0, disk_bytes
        self._rows: deque[Row] = deque()
        self._captures: deque[TensorCapture] = deque()
        self._acquired_bytes = self._released_bytes = 0
        self._events, self._phases = deque[Event](), deque[bytes]()
        self._stamp: StepStamp | None = None
        self._complete_step = -1
        for folder in (layout.WORKERS, layout.SERIES, layout.TIMELINE):
            make_subfolder(os.path.join(run, folder))
        path = os.path.join(run, layout.worker_document(worker))
        self._written = WrittenTensors()
        self._document = InPlaceDocument(path, self._full_document("running"))
        self._next_document_at, self._last_document = 0.0, b""
        self._series = _Stream(SegmentFolder(run, layout.SERIES, worker), start.series)
        self._layouts: dict[int, SeriesLayout] = {}
        """The layouts of the open segments by their ids, which no other layout may take meanwhile."""
        self._timeline = _Stream(SegmentFolder(run, layout.TIMELINE, worker), start.timeline)
        self._tensors: TensorFolder | None = None
        self._first_tensors, self._tensor_retry_at, self._wake = start.tensors, 0.0, threading.Event()
        self._is_closing = self._has_ended = False
        self._begun = self._done = 0
        """The numbers of flushes that have begun and ended."""
        self._has_flushed = threading.Condition()
        self._thread = threading.Thread(target=guarded(self._work), name="leadline-writer", daemon=True)
        self._thread.start()

    # --- the training thread's side -----------------------------------------------------------------------

    def put_row(self, row_layout: SeriesLayout, stamp: StepStamp, values: bytes, *, is_urgent: bool = False) -> None:
        """Queue one row.

        Args:
            values: One little-endian float64 for each column of the layout.
            is_urgent: Flush at once rather than within 250 ms.
        """
        if self._row_bytes > self._row_limit:
            self._count_dropped(
                stamp.step, "write queue full: rows arrive faster than they are written", rows=1, size=len(values)
            )
            return
        self._row_bytes += len(values)
        self._rows.append(Row(row_layout, stamp, values))
        if is_urgent:
            self._wake.set()

    def put_event(self, event: Event) -> None:
        """Queue an event of the timeline."""
        self._events.append(event)

    def put_phases(self, row: bytes) -> None:
        """Queue the phases of a step, packed as ``records.phases.ROW``."""
        self._phases.append(row)

    def acquire(self, form: CaptureForm, step: int) -> HostBuffer | None:
        """Return a buffer for a raw capture; None (counted as dropped) if the memory or disk limit is reached."""
        pending = self._acquired_bytes - self._released_bytes
        if self._disk_bytes is not None and self.bytes + pending + form.buffer_bytes > self._disk_bytes:
            reason = f"the run's disk limit of {self._disk_bytes:,} bytes is reached"
            self._count_dropped(step, reason, tensors=len(form.slots), size=form.data_bytes)
            return None
        buffer = self._pool.acquire(form)
        if buffer is None:
            reason = "capture buffers full: captures arrive faster than they are written"
            self._count_dropped(step, reason, tensors=len(form.slots), size=form.data_bytes)
            return None
        self._acquired_bytes += form.buffer_bytes
        return buffer

    def put_tensors(self, capture: TensorCapture) -> None:
        """Queue a filled buffer; large ones are written at once."""
        self._captures.append(capture)
        if capture.bytes > 1 << 20:
            self._wake.set()

    def finish_step(self, stamp: StepStamp) -> None:
        """Mark all data of a step as queued."""
        self._stamp = stamp

    def update_document(self) -> None:
        """Rewrite the worker's document at once."""
        self._next_document_at = 0.0
        if threading.current_thread() is self._thread:
            self._write_document()  # the thread has failed and will not do it later
        self._wake.set()

    def flush(self) -> bool:
        """Write what is queued; return whether that is done, which takes at most some seconds."""
        with self._has_flushed:
            wanted = self._begun + 1
            self._wake.set()
            is_over = self._has_flushed.wait_for(
                lambda: self._done >= wanted or not self._thread.is_alive(), _CLOSE_SECONDS
            )
            return is_over and self._done >= wanted

    def close(self) -> bool:
        """Write all queued data, mark the worker as ended, and stop; return whether nothing failed or was dropped."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(_CLOSE_SECONDS)
        has_failed = not self._thread.is_alive() and not self._has_ended
        if has_failed:
            self._end()
        return self._has_ended and not has_failed and self.dropped is None

    # --- the writer's thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._is_closing:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            self._before_flush()
            self._begun += 1
            self._flush()
            with self._has_flushed:
                self._done = self._begun
                self._has_flushed.notify_all()
        self._flush()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        for segment in (*self._series.open.values(), *self._timeline.open.values()):
            segment.close()
        if self._tensors is not None:
            self._tensors.close()
        self._document.write(self._full_document("ended"))
        self._document.close()

    def _flush(self) -> None:
        stamp = self._stamp
        rows = self._take_rows()
        self._flush_events()  # before the rows: a reader of a row must already see the events before its step
        self._flush_phases()
        self._flush_rows(rows, stamp)
        self._flush_tensors()
        self._write_document()

    def _take_rows(self) -> list[Row]:
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        for row in rows:
            self._row_bytes -= len(row.values)
        return rows

    def _flush_rows(self, rows: list[Row], stamp: StepStamp | None) -> None:
        if stamp is not None and not rows and stamp.step > self._complete_step:
            rows = [Row(HEARTBEAT_LAYOUT, stamp, bytes(8))]
        batches = in_batches(rows)
        for index, batch in enumerate(batches):
            is_last = index == len(batches) - 1
            complete = stamp.step if is_last and stamp is not None else self._complete_step
            self._append_rows(batch, complete)
            self._complete_step = complete

    def _append_rows(self, rows: list[Row], complete: int) -> None:
        row_layout = rows[0].layout
        columns: codec.Columns = {
            "complete_step": codec.int64_buffer([complete] * len(rows)),
            "step": codec.int64_buffer([row.stamp.step for row in rows]),
            "mode": [row.stamp.mode for row in rows],
            "mode_step": codec.int64_buffer([row.stamp.mode_step for row in rows]),
            "time_ns": codec.int64_buffer([row.stamp.time_ns for row in rows]),
            "values": b"".join([row.values for row in rows]),
        }
        width = len(row_layout.columns)

        def open_segment() -> Segment:
            self._layouts = {key: kept for key, kept in self._layouts.items() if key in self._series.open}
            self._layouts[id(row_layout)] = row_layout
            self._written.forget(row_layout)
            return self._series.folder.open(codec.series_schema(width), codec.series_metadata(row_layout))

        if self._append(self._series, id(row_layout), open_segment, len(rows), columns, rows[0].stamp.step):
            self.rows += 0 if row_layout in (HEARTBEAT_LAYOUT, SKIPPED_LAYOUT) else len(rows)
            self._written.note(row_layout, {row.stamp.mode for row in rows})

    def _flush_events(self) -> None:
        while events := [self._events.popleft() for _ in range(min(len(self._events), _MAX_EVENTS))]:
            self._write_events(events)

    def _write_events(self, events: list[Event]) -> None:
        columns: codec.Columns = {
            "name": [event.name for event in events],
            "phase": [event.phase for event in events],
            "step": codec.int64_buffer([event.step for event in events]),
            "start_ns": codec.int64_buffer([event.start_ns for event in events]),
            "duration_ns": codec.int64_buffer([event.duration_ns for event in events]),
            "thread": codec.int64_buffer([event.thread for event in events]),
            "args": [encode(event.args).decode() for event in events],
        }

        self._append(self._timeline, 0, self._open_timeline, len(events), columns, events[0].step)

    def _flush_phases(self) -> None:
        offset_ns, left = wall_offset_ns(), len(self._phases)
        while left:
            steps = [self._phases.popleft() for _ in range(min(left, _MAX_STEPS))]
            left -= len(steps)
            rows, columns = phase_columns(steps, offset_ns)
            self._append(self._timeline, 0, self._open_timeline, rows, columns, int.from_bytes(steps[0][:8], "little"))
            if left:
                time.sleep(0)  # yield to the training thread

    def _open_timeline(self) -> Segment:
        return self._timeline.folder.open(codec.TIMELINE, {})

    def _append(
        self,
        stream: _Stream,
        key: int,
        open_segment: Callable[[], Segment],
        rows: int,
        columns: Mapping[str, Any],
        step: int,
    ) -> bool:
        size = sum(len(column) for column in columns.values())
        if time.monotonic() < stream.retry_at:
            self._count_dropped(step, None, rows=rows, size=size)
            return False
        if self._disk_bytes is not None and self.bytes > self._disk_bytes:
            reason = f"the run's disk limit of {self._disk_bytes:,} bytes is reached"
            self._count_dropped(step, reason, rows=rows, size=size)
            return False
        try:
            segment = stream.open.get(key) or self._open(stream, key, open_segment)
            self.bytes += segment.append(stream.sequence, rows, columns)
        except OSError as error:
            self._fail(stream, key, error, step=step, rows=rows, size=size)
            return False
        stream.sequence += 1
        if segment.is_full:
            stream.open.pop(key).close()
        return True

    def _open(self, stream: _Stream, key: int, open_segment: Callable[[], Segment]) -> Segment:
        if len(stream.open) >= _MAX_OPEN_SEGMENTS:
            stream.open.pop(next(iter(stream.open))).close()
        stream.open[key] = open_segment()
        return stream.open[key]

    def _fail(self, stream: _Stream, key: int, error: OSError, *, step: int, rows: int, size: int) -> None:
        segment = stream.open.pop(key, None)
        if segment is not None:
            segment.close()
            if segment.bytes == 0:
                os.unlink(segment.path)
        stream.retry_at = time.monotonic() + _RETRY_SECONDS
        self._count_dropped(step, error.strerror or str(error), rows=rows, size=size)

    def _flush_tensors(self) -> None:
        captures = [self._captures.popleft() for _ in range(len(self._captures))]
        for batch in _batches(captures):
            try:
                if time.monotonic() < self._tensor_retry_at:
                    raise OSError(0, self.dropped.reason if self.dropped else "write failed")
                if self._tensors is None:
                    self._tensors = TensorFolder(self.run, self.worker, self._first_tensors)
                self.bytes += self._tensors.write(batch)
            except OSError as error:
                if error.errno:
                    self._tensor_retry_at = time.monotonic() + _RETRY_SECONDS
                for capture in batch:
                    form = capture.buffer.form
                    self._count_dropped(capture.step, error.strerror, tensors=len(form.slots), size=form.data_bytes)
            for capture in batch:
                self._released_bytes += capture.buffer.form.buffer_bytes
                self._pool.release(capture.buffer)

    def _count_dropped(self, step: int, reason: str | None, *, rows: int = 0, tensors: int = 0, size: int = 0) -> None:
        if self.dropped is None:
            self.dropped = DroppedData(step, reason or "write failed")
            self._next_document_at = 0.0
        known = self.dropped
        self.dropped = replace(known, rows=known.rows + rows, tensors=known.tensors + tensors, bytes=known.bytes + size)

    def _write_document(self) -> None:
        now = time.monotonic()
        if now < self._next_document_at:
            return
        self._next_document_at = now + _DOCUMENT_SECONDS
        document = self._full_document("running")
        encoded = encode(document)
        if encoded != self._last_document:
            self._last_document = encoded
            self._document.write(document)

    def _full_document(self, state: str) -> WorkerDocument:
        document = self._describe()
        return replace(
            document,
            sampled=tuple(filter(self._written.may_have, document.sampled)),
            state=state,
            ended_ns=time.time_ns() if state == "ended" else None,
            rows=self.rows,
            bytes=self.bytes,
            lost=self.dropped,
        )


def _batches(captures: list[TensorCapture]) -> list[list[TensorCapture]]:
    """Group captures into batches of at most a segment's size; larger captures are alone."""
    batches: list[list[TensorCapture]] = []
    size = SEGMENT_BYTES
    for capture in captures:
        if size + capture.bytes > SEGMENT_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(capture)
        size += capture.bytes
    return batches
