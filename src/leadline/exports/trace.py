"""Writing a trace in the Chrome trace format, event by event: a long run needs no more memory than a short one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from leadline.store.documents import encode

_FIRST_TID: Final = 1000
"""Beyond all process numbers: a thread whose number is its process' would be taken for its main thread."""
JITTER_NS: Final = 50_000


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """Something that took its time."""

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
class _Lane:
    """One row of slices, each within the one that is open or behind it."""

    tid: int
    ends_ns: list[int] = field(default_factory=list)
    last_ns: int = 0
    """When the latest slice began."""

    def take(self, each: TraceSpan) -> int | None:
        """Where a slice begins that fits here, and then it is here; None: it does not."""
        ends, start_ns = list(self.ends_ns), each.start_ns
        if 0 < self.last_ns - start_ns <= JITTER_NS:
            start_ns = self.last_ns
        while ends and ends[-1] < each.end_ns:
            if ends[-1] - start_ns > JITTER_NS:
                return None
            start_ns = max(start_ns, ends.pop())
        while ends and ends[-1] <= start_ns:
            ends.pop()
        if start_ns < self.last_ns:
            return None
        self.ends_ns, self.last_ns = [*ends, max(each.end_ns, start_ns)], start_ns
        return start_ns


class Trace:
    """A trace that is being written.

    **One clock**: wall clock, as microseconds since ``origin_ns``.
    **Proper nesting**: slices of one track that overlap without one lying within the other go to tracks of their own;
    where it is by no more than ``JITTER_NS``, which is what two readings of a clock differ by, the later begins later.

    Attributes:
        slices, samples, marks: How many were written.
    """

    def __init__(self, file: TextIO, origin_ns: int) -> None:
        self.slices = self.samples = self.marks = 0
        self._file, self._origin_ns = file, origin_ns
        self._pid, self._tid = 0, _FIRST_TID
        self._lanes: dict[tuple[int, str], list[_Lane]] = {}
        self._separator = ""
        file.write('{"displayTimeUnit":"ns","traceEvents":[')

    def process(self, name: str, label: str = "") -> int:
        """A process of the trace, in the order in which they are to be shown; its number."""
        self._pid += 1
        self._describe("process_name", self._pid, 0, name=name)
        self._describe("process_sort_index", self._pid, 0, sort_index=self._pid)
        if label:
            self._describe("process_labels", self._pid, 0, labels=label)
        return self._pid

    def put(self, pid: int, track: str, slices: Iterable[TraceSpan]) -> None:
        """Write slices of one track of a process, given in the order in which they began, the longest first."""
        for each in slices:
            tid, start_ns = self._place(pid, track, each)
            event = {"ph": "X", "name": each.name, "pid": pid, "tid": tid, "ts": self._ts(start_ns)}
            event["dur"] = max(0, each.end_ns - start_ns) / 1000
            self._write(event, each.args, each.category)
            self.slices += 1

    def mark(
        self, pid: int, track: str, name: str, time_ns: int, args: Mapping[str, Any], *, is_global: bool = False
    ) -> None:
        """Write that something happened."""
        tid = self._lane(pid, track, 0).tid
        event = {"ph": "i", "name": name, "pid": pid, "tid": tid, "ts": self._ts(time_ns)}
        self._write(event | {"s": "g" if is_global else "t"}, args)
        self.marks += 1

    def sample(self, pid: int, name: str, time_ns: int, value: float) -> None:
        """Write what a counter showed."""
        self._write({"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": self._ts(time_ns)}, {"value": value})
        self.samples += 1

    def close(self, metadata: Mapping[str, Any]) -> None:
        """End the trace with what is to be known of it."""
        self._file.write(f'],"otherData":{encode(metadata).decode()}}}\n')

    def _place(self, pid: int, track: str, each: TraceSpan) -> tuple[int, int]:
        """The thread, and the begin, of a slice."""
        for lane in self._lanes.get((pid, track), ()):
            start_ns = lane.take(each)
            if start_ns is not None:
                return lane.tid, start_ns
        lane = self._lane(pid, track, len(self._lanes.get((pid, track), ())))
        lane.take(each)
        return lane.tid, each.start_ns

    def _lane(self, pid: int, track: str, ordinal: int) -> _Lane:
        lanes = self._lanes.setdefault((pid, track), [])
        while len(lanes) <= ordinal:
            self._tid += 1
            name = track if not lanes else f"{track} ({len(lanes) + 1})"
            self._describe("thread_name", pid, self._tid, name=name)
            self._describe("thread_sort_index", pid, self._tid, sort_index=self._tid)
            lanes.append(_Lane(self._tid))
        return lanes[ordinal]

    def _describe(self, what: str, pid: int, tid: int, **args: Any) -> None:
        self._write({"ph": "M", "name": what, "pid": pid, "tid": tid}, args)

    def _ts(self, time_ns: int) -> float:
        return (time_ns - self._origin_ns) / 1000

    def _write(self, event: dict[str, Any], args: Mapping[str, Any], category: str = "") -> None:
        if category:
            event["cat"] = category
        if args:
            event["args"] = args
        self._file.write(f"{self._separator}\n{_spoken(event)}")
        self._separator = ","


def _spoken(event: Mapping[str, Any]) -> str:
    try:
        return json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:  # NaN and infinity, for which JSON has no words
        return encode(event).decode()
