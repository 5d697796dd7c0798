"""Streams of a run for the digest: compacted files followed by the newest batches."""

from __future__ import annotations

import os
from contextlib import suppress

from leadline.analysis.rollup_schema import RollupSchema
from leadline.reader.compact import ParquetPart, PartChain, compact_folders, streams_of
from leadline.reader.segments import Range
from leadline.reader.stream import BulkStream
from leadline.store import layout


class Stream:
    """One stream.

    Attributes:
        tail: The batches after the compacted files.
        is_waiting: Whether the uncompacted part is too large to be read and waits for compaction.
    """

    def __init__(self, run: str, schema: RollupSchema, name: str) -> None:
        self.name, self.schema = name, schema
        self.tail: list[Range] = []
        self.is_waiting = False
        self.version = 0
        """Changes whenever there is new data."""
        self._run = run
        self._chain = PartChain(_compact_folder(run), schema.part, name)
        self._reading = BulkStream(run, schema.part, name)

    @property
    def parts(self) -> list[ParquetPart]:
        """The compacted files."""
        return self._chain.parts

    @property
    def damage(self) -> list[str]:
        """One line for each segment that could not be read."""
        return self._reading.damage

    def share(self) -> tuple[int, int]:
        """Return the number of bytes that were read or compacted, and the total number of bytes."""
        total = self._reading.all_bytes
        return total - self._reading.left_bytes, total

    def refresh(self, max_bytes: int | None) -> None:
        """Read new data.

        Args:
            max_bytes: The maximum size of the uncompacted part that is read.
        """
        if not self._chain.parts and (folder := _compact_folder(self._run)) != self._chain.place:
            self._chain = PartChain(folder, self.schema.part, self.name)
        if self._chain.refresh():
            self._reading = BulkStream(self._run, self.schema.part, self.name, self._chain.position)
            self.tail = []
            self.version += 1
        left = self._reading.left_bytes
        self.is_waiting = max_bytes is not None and left > max_bytes
        if left and not self.is_waiting:
            new = [batches for batches in self._reading.read(left) if len(batches.rows)]
            self.tail += new
            self.version += bool(new)

    def rows_between(self, start_ns: int, end_ns: int, max_bytes: int) -> list[Range]:
        """Return the batches that may contain rows of an interval; compacted files only provide the start offset.

        Args:
            max_bytes: The maximum number of bytes to read.
        """
        begin: dict[str, int] = {}
        passed: dict[str, int] = {}
        size = max_bytes
        for first_ns, last_ns, position in (mark for part in self.parts for mark in part.metadata.get("marks", ())):
            passed = {**passed, **position}
            if last_ns < start_ns:
                begin = passed
            elif first_ns is not None and first_ns > end_ns:
                size = sum(passed.values()) - sum(begin.values())
                break
        return BulkStream(self._run, self.schema.part, self.name, begin).read(max(min(size, max_bytes), 1))

    def forget(self, path: str) -> None:
        """Ignore and delete a damaged compacted file, so that it is rebuilt."""
        self._chain.forget(path)
        with suppress(OSError):
            os.unlink(path)
        self._reading = BulkStream(self._run, self.schema.part, self.name, self._chain.position)
        self.tail = []
        self.version += 1


def _compact_folder(run: str) -> str:
    """Return the folder with the compacted data of a run."""
    existing = [folder for folder in compact_folders(run) if os.path.isdir(os.path.join(folder, layout.COMPACT))]
    return existing[0] if existing else run


class Streams:
    """All streams of one kind."""

    def __init__(self, run: str, schema: RollupSchema) -> None:
        self._run, self._schema = run, schema
        self.all: dict[str, Stream] = {}

    def refresh(self, max_bytes: int | None) -> None:
        """Read new data and new streams."""
        for name in streams_of(self._run, self._schema.part):
            if name not in self.all:
                self.all[name] = Stream(self._run, self._schema, name)
        for stream in self.all.values():
            stream.refresh(max_bytes)

    @property
    def version(self) -> int:
        """Changes whenever there is new data."""
        return sum(stream.version for stream in self.all.values()) + len(self.all)

    def latest_ns(self) -> int | None:
        """Return the latest time in the compacted files."""
        ends = [part.metadata.get("end_ns") for stream in self.all.values() for part in stream.parts]
        return max((end_ns for end_ns in ends if end_ns is not None), default=None)
