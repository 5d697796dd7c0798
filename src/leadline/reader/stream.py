"""Following one stream: the segments of a worker or node, put together in the order in which they were written."""

from __future__ import annotations

import os
import time

from leadline.reader.segments import Batch, SegmentTail

_SETTLED_NS = 100_000_000
"""A folder younger than this may still get a file within the same tick of its clock."""


class StreamTail:
    """The batches of a stream, as a prefix of what was written.

    A batch is accepted when all before it in sequence were. A gap is passed over, and told, when a segment is
    damaged or nothing more can come.

    Attributes:
        damage: One line for each part that could not be read.
    """

    def __init__(self, run: str, part: str, stream: str) -> None:
        self.part, self.stream = part, stream
        self.damage: list[str] = []
        self._folder = os.path.join(run, part, stream)
        self._segments: dict[str, SegmentTail] = {}
        self._listed_ns = -1
        self._held: dict[int, Batch] = {}
        self._next = 0

    def read_new(self, *, is_finished: bool = False) -> list[Batch]:
        """The batches that can be accepted since the last call.

        Args:
            is_finished: Nobody writes this stream any more, and nobody did when this call began.
        """
        self._poll()
        accepted = self._in_order()
        if self._held and (is_finished or self.damage):
            # What is written earlier lies on disk earlier: whatever the first look missed, this one sees.
            self._poll()
            accepted += self._in_order()
            while self._held:
                self._pass_gap()
                accepted += self._in_order()
        if is_finished:
            self._report_torn()
        return accepted

    def _poll(self) -> None:
        self._find_segments()
        for segment in self._segments.values():
            had = segment.damage
            for batch in segment.read_new():
                self._hold(batch, segment)
            if segment.damage is not None and had is None:
                self.damage.append(segment.damage)

    def _hold(self, batch: Batch, segment: SegmentTail) -> None:
        if batch.sequence < self._next or batch.sequence in self._held:
            if segment.damage is None:
                segment.damage = f"{segment.name}: holds batch {batch.sequence} a second time"
                self.damage.append(segment.damage)
            return
        self._held[batch.sequence] = batch

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
                shown = f"{self.part}/{self.stream}/{name}"
                self._segments[name] = SegmentTail(os.path.join(self._folder, name), shown)
        self._listed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1

    def _in_order(self) -> list[Batch]:
        accepted = []
        while self._next in self._held:
            accepted.append(self._held.pop(self._next))
            self._next += 1
        return accepted

    def _pass_gap(self) -> None:
        first = min(self._held)
        missing = f"batch {self._next}" if first == self._next + 1 else f"batches {self._next} to {first - 1}"
        self.damage.append(f"{self.part}/{self.stream}: {missing} missing before {self._held[first].segment.path}")
        self._next = first

    def _report_torn(self) -> None:
        for segment in self._segments.values():
            if segment.torn_at is not None and segment.damage is None:
                line = f"{segment.name}: ends within a batch (at byte {segment.torn_at})"
                if line not in self.damage:
                    self.damage.append(line)
