"""Traces in Chrome's format: slices on tracks that nest, marks and counters of processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from leadline.formats.chrome_trace import TraceWriter, encoded, entry
from leadline.store.documents import encode

_FIRST_TID: Final = 1000
"""Larger than all process ids: a thread with the id of its process would be shown as its main thread."""
JITTER_NS: Final = 50_000


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A slice of a trace: a named activity with a duration."""

    name: str
    start_ns: int
    """Wall clock."""
    duration_ns: int
    args: Mapping[str, Any] = field(default_factory=dict)
    category: str = ""

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


@dataclass(slots=True)
class _Track:
    """One row of slices that nest or follow each other."""

    tid: int
    ends_ns: list[int] = field(default_factory=list)
    last_ns: int = 0
    """Start of the latest slice."""

    def add(self, slice_: TraceSpan) -> int | None:
        """Add a slice and return its (possibly adjusted) start; None if it does not fit."""
        ends, start_ns = list(self.ends_ns), slice_.start_ns
        if 0 < self.last_ns - start_ns <= JITTER_NS:
            start_ns = self.last_ns
        while ends and ends[-1] < slice_.end_ns:
            if ends[-1] - start_ns > JITTER_NS:
                return None
            start_ns = max(start_ns, ends.pop())
        while ends and ends[-1] <= start_ns:
            ends.pop()
        if start_ns < self.last_ns:
            return None
        self.ends_ns, self.last_ns = [*ends, max(slice_.end_ns, start_ns)], start_ns
        return start_ns


class Trace:
    """A trace that is being written.

    **One clock**: wall clock, as microseconds since ``origin_ns``.
    **Proper nesting**: slices of one track that overlap without nesting go to separate tracks; if they overlap by at
    most ``JITTER_NS``, the difference between two clock readings, the later one starts later.

    Attributes:
        slices, samples, marks: Counts of the written events.
    """

    def __init__(self, file: TextIO, origin_ns: int) -> None:
        self.slices = self.samples = self.marks = 0
        self._writer, self._origin_ns = TraceWriter(file, '{"displayTimeUnit":"ns","traceEvents":['), origin_ns
        self._pid, self._tid = 0, _FIRST_TID
        self._tracks: dict[tuple[int, str], list[_Track]] = {}

    def process(self, name: str, label: str = "") -> int:
        """Add a process, in display order; return its id."""
        self._pid += 1
        self._describe("process_name", self._pid, 0, name=name)
        self._describe("process_sort_index", self._pid, 0, sort_index=self._pid)
        if label:
            self._describe("process_labels", self._pid, 0, labels=label)
        return self._pid

    def put(self, pid: int, track: str, slices: Iterable[TraceSpan]) -> None:
        """Write slices of one track of a process, ordered by start, the longest first."""
        for slice_ in slices:
            tid, start_ns = self._place(pid, track, slice_)
            times = {"start_us": self._us(start_ns), "duration_us": max(0, slice_.end_ns - start_ns) / 1000}
            self._put("X", slice_.name, pid, tid=tid, **times, category=slice_.category, args=slice_.args)
            self.slices += 1

    def mark(
        self, pid: int, track: str, name: str, time_ns: int, args: Mapping[str, Any], *, is_global: bool = False
    ) -> None:
        """Write an instant event."""
        tid = self._track(pid, track, 0).tid
        scope = "g" if is_global else "t"
        self._put("i", name, pid, tid=tid, start_us=self._us(time_ns), scope=scope, args=args)
        self.marks += 1

    def sample(self, pid: int, name: str, time_ns: int, value: float) -> None:
        """Write a sample of a counter."""
        self._put("C", name, pid, tid=0, start_us=self._us(time_ns), args={"value": value})
        self.samples += 1

    def close(self, metadata: Mapping[str, Any]) -> None:
        """End the trace with its metadata."""
        self._writer.close(f'],"otherData":{encode(metadata).decode()}}}\n')

    def _place(self, pid: int, name: str, slice_: TraceSpan) -> tuple[int, int]:
        """Return thread id and start of a slice."""
        for track in self._tracks.get((pid, name), ()):
            start_ns = track.add(slice_)
            if start_ns is not None:
                return track.tid, start_ns
        track = self._track(pid, name, len(self._tracks.get((pid, name), ())))
        track.add(slice_)
        return track.tid, slice_.start_ns

    def _track(self, pid: int, name: str, ordinal: int) -> _Track:
        tracks = self._tracks.setdefault((pid, name), [])
        while len(tracks) <= ordinal:
            self._tid += 1
            thread_name = name if not tracks else f"{name} ({len(tracks) + 1})"
            self._describe("thread_name", pid, self._tid, name=thread_name)
            self._describe("thread_sort_index", pid, self._tid, sort_index=self._tid)
            tracks.append(_Track(self._tid))
        return tracks[ordinal]

    def _describe(self, field: str, pid: int, tid: int, **args: Any) -> None:
        self._put("M", field, pid, tid=tid, args=args)

    def _us(self, time_ns: int) -> float:
        return (time_ns - self._origin_ns) / 1000

    def _put(self, kind: str, name: str, pid: int, **facts: Any) -> None:
        self._writer.put(encoded(entry(kind, name, pid, **facts)))
