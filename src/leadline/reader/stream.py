"""Incremental readers of a stream: all segments of a worker or node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import numpy as np

from leadline.reader.incarnations import read_replacements, without_replaced
from leadline.reader.segments import Range, SegmentTail
from leadline.store.folder_watch import FolderWatch
from leadline.store.layout import SEGMENTS
from leadline.store.segments import row_bytes

_READ_BYTES: Final = 2 << 20
"""About the size of one read: decoding needs up to eight times as much memory."""


class _Segments:
    """The segments of a stream, in the order in which they were opened.

    Args:
        position: Offsets by segment; segments that are missing here are read from their beginning.

    Attributes:
        known: The segments found so far, by file name.
    """

    def __init__(self, run: str, part: str, stream: str, position: Mapping[str, int]) -> None:
        self._name = f"{part}/{stream}"
        self._watch = FolderWatch(os.path.join(run, part, stream))
        self._position = position
        self.known: dict[str, SegmentTail] = {}

    def find(self) -> dict[str, SegmentTail]:
        """Return the segments by file name, with those that appeared since the last call."""
        for entry in self._watch.new_entries() or ():
            if entry.name.endswith(SEGMENTS) and entry.name not in self.known:
                offset = self._position.get(entry.name, 0)
                self.known[entry.name] = SegmentTail(entry.path, f"{self._name}/{entry.name}", offset)
        return self.known


class StreamTail:
    """Reads a stream in the order of writing, as a prefix of the written data.

    What incarnations that had begun by then have replaced is left out. A batch is accepted when all batches before it
    in sequence were. A gap is skipped and reported when a segment is damaged or the stream has ended.

    Attributes:
        damage: One line for each part that could not be read.
    """

    def __init__(self, run: str, part: str, stream: str) -> None:
        self.part, self.stream = part, stream
        self.damage: list[str] = []
        self._segments = _Segments(run, part, stream, {})
        self._pending: list[Range] = []
        self._next = 0
        self._cuts = read_replacements(run).of(stream)

    def read_new(self, *, is_finished: bool = False) -> list[Range]:
        """Return the batches accepted since the last call, by segment.

        Args:
            is_finished: The stream had ended before this call, so that nothing more will be written.
        """
        self._poll()
        accepted = self._accept()
        if self._pending and (is_finished or self.damage):
            # Data is on disk in the order of writing: the second poll sees everything that the first one missed.
            self._poll()
            accepted += self._accept()
            while self._pending:
                self._skip_gap()
                accepted += self._accept()
        if is_finished:
            self._report_torn()
        kept = (without_replaced(batches, self.part, self._cuts) for batches in accepted)
        return [batches for batches in kept if batches.rows.any()]

    def _poll(self) -> None:
        for segment in self._segments.find().values():
            if segment.damage is not None:
                continue
            while (batches := segment.read()) is not None:
                self._add(batches, segment)
            if segment.damage is not None:
                self.damage.append(segment.damage)

    def _add(self, batches: Range, segment: SegmentTail) -> None:
        is_known = batches.sequences < self._next
        if self._pending:
            is_known |= np.isin(batches.sequences, np.concatenate([known.sequences for known in self._pending]))
        if is_known.any():
            first = int(np.argmax(is_known))
            segment.damage = f"{segment.name}: contains batch {batches.sequences[first]} twice"
            batches = batches.slice(0, first)
        if len(batches.rows):
            self._pending.append(batches)

    def _accept(self) -> list[Range]:
        """Return the pending batches before the next gap, ordered by the first of each range."""
        if not self._pending:
            return []
        sequences = np.sort(np.concatenate([batches.sequences for batches in self._pending]))
        self._next += int(np.count_nonzero(sequences == self._next + np.arange(len(sequences))))
        accepted, self._pending, pending = [], [], self._pending
        for batches in pending:
            count = int(np.searchsorted(batches.sequences, self._next))
            if count > 0:
                accepted.append(batches.slice(0, count))
            if count < len(batches.rows):
                self._pending.append(batches.slice(count, len(batches.rows)))
        return sorted(accepted, key=lambda batches: int(batches.sequences[0]))

    def _skip_gap(self) -> None:
        following = min(self._pending, key=lambda batches: int(batches.sequences[0]))
        first = int(following.sequences[0])
        missing = f"batch {self._next}" if first == self._next + 1 else f"batches {self._next} to {first - 1}"
        self.damage.append(f"{self.part}/{self.stream}: {missing} missing before {following.info.path}")
        self._next = first

    def _report_torn(self) -> None:
        for segment in self._segments.known.values():
            if segment.torn_at is not None and segment.damage is None:
                line = f"{segment.name}: ends with an incomplete batch (at byte {segment.torn_at})"
                if line not in self.damage:
                    self.damage.append(line)


class SharedStreams:
    """The series and timelines of the workers of a run, each decoded once for several readers.

    Args:
        readers: Their number.
    """

    def __init__(self, run: str, readers: int = 1) -> None:
        self._run, self._readers = run, set(range(readers))
        self._tails: dict[tuple[str, str], StreamTail] = {}
        self._waiting: dict[tuple[str, str], dict[int, list[Range]]] = {}

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read."""
        return [line for _, tail in sorted(self._tails.items()) for line in tail.damage]

    def read_new(self, part: str, stream: str, *, reader: int = 0, is_finished: bool = False) -> list[Range]:
        """Return the batches accepted since the last call of a reader; the arguments are those of ``StreamTail``."""
        key = part, stream
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = StreamTail(self._run, part, stream)
        new = tail.read_new(is_finished=is_finished)
        if len(self._readers) == 1:
            return self._waiting.pop(key, {}).get(reader, []) + new
        waiting = self._waiting.setdefault(key, {number: [] for number in self._readers})
        for batches in waiting.values():
            batches += new
        mine, waiting[reader] = waiting[reader], []
        return mine

    def leave(self, reader: int) -> None:
        """Keep nothing for a reader any more."""
        self._readers.discard(reader)
        for waiting in self._waiting.values():
            waiting.pop(reader, None)


class BulkStream:
    """Reads a stream segment by segment, in parts of limited size; a damaged segment is not read any further.

    What incarnations that had begun by then have replaced is left out.

    Args:
        position: Offsets by segment; segments that are missing here are read from their beginning.
    """

    def __init__(self, run: str, part: str, stream: str, position: Mapping[str, int] | None = None) -> None:
        self.stream = stream
        self._part, self._cuts = part, read_replacements(run).of(stream)
        self._position = dict(position or {})
        self._segments = _Segments(run, part, stream, self._position)

    @property
    def position(self) -> dict[str, int]:
        """The offset up to which each segment was read."""
        return {**self._position, **{name: segment.offset for name, segment in self._segments.known.items()}}

    @property
    def damage(self) -> list[str]:
        """One line for each damaged segment."""
        return [segment.damage for segment in self._segments.known.values() if segment.damage is not None]

    @property
    def left_bytes(self) -> int:
        """The number of bytes not read yet."""
        return sum(segment.left_bytes for segment in self._segments.find().values())

    @property
    def all_bytes(self) -> int:
        """The total number of bytes, read or not."""
        return self.left_bytes + sum(row_bytes(name, offset) for name, offset in self.position.items())

    def read(self, limit_bytes: int) -> list[Range]:
        """Return the next batches, segment by segment, about ``limit_bytes`` in total."""
        ranges: list[Range] = []
        left = limit_bytes
        for segment in self._segments.find().values():
            while left > 0:
                before = segment.offset
                batches = segment.read(min(left, _READ_BYTES))
                if batches is None:
                    break
                left -= row_bytes(segment.path, segment.offset - before)
                ranges.append(without_replaced(batches, self._part, self._cuts))
        return ranges
