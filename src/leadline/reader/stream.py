"""Incremental reader of a stream: all segments of a worker or node, in the order of writing."""

from __future__ import annotations

import os
import time

from leadline.reader.segments import Batch, SegmentTail

_SETTLED_NS = 100_000_000
"""A folder modified more recently than this can change again without a new modification time."""


class StreamTail:
    """Returns the batches of a stream as a prefix of the written data.

    A batch is accepted when all batches before it in sequence were. A gap is skipped and reported when a segment is
    damaged or the stream has ended.

    Attributes:
        damage: One line for each part that could not be read.
    """

    def __init__(self, run: str, part: str, stream: str) -> None:
        self.part, self.stream = part, stream
        self.damage: list[str] = []
        self._folder = os.path.join(run, part, stream)
        self._segments: dict[str, SegmentTail] = {}
        self._listed_ns = -1
        self._pending: dict[int, Batch] = {}
        self._next = 0

    def read_new(self, *, is_finished: bool = False) -> list[Batch]:
        """Return the batches accepted since the last call.

        Args:
            is_finished: The stream had ended before this call, so that nothing more will be written.
        """
        self._poll()
        accepted = self._in_order()
        if self._pending and (is_finished or self.damage):
            # Data is on disk in the order of writing: the second poll sees everything that the first one missed.
            self._poll()
            accepted += self._in_order()
            while self._pending:
                self._skip_gap()
                accepted += self._in_order()
        if is_finished:
            self._report_torn()
        return accepted

    def _poll(self) -> None:
        self._find_segments()
        for segment in self._segments.values():
            previous = segment.damage
            for batch in segment.read_new():
                self._add(batch, segment)
            if segment.damage is not None and previous is None:
                self.damage.append(segment.damage)

    def _add(self, batch: Batch, segment: SegmentTail) -> None:
        if batch.sequence < self._next or batch.sequence in self._pending:
            if segment.damage is None:
                segment.damage = f"{segment.name}: contains batch {batch.sequence} twice"
                self.damage.append(segment.damage)
            return
        self._pending[batch.sequence] = batch

    def _find_segments(self) -> None:
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
            if changed_ns == self._listed_ns:
                return
            names = sorted(os.listdir(self._folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            if name.endswith(".arrow") and name not in self._segments:
                display_name = f"{self.part}/{self.stream}/{name}"
                self._segments[name] = SegmentTail(os.path.join(self._folder, name), display_name)
        self._listed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1

    def _in_order(self) -> list[Batch]:
        accepted = []
        while self._next in self._pending:
            accepted.append(self._pending.pop(self._next))
            self._next += 1
        return accepted

    def _skip_gap(self) -> None:
        first = min(self._pending)
        missing = f"batch {self._next}" if first == self._next + 1 else f"batches {self._next} to {first - 1}"
        self.damage.append(f"{self.part}/{self.stream}: {missing} missing before {self._pending[first].segment.path}")
        self._next = first

    def _report_torn(self) -> None:
        for segment in self._segments.values():
            if segment.torn_at is not None and segment.damage is None:
                line = f"{segment.name}: ends with an incomplete batch (at byte {segment.torn_at})"
                if line not in self.damage:
                    self.damage.append(line)
