"""The streams of a run as a digest reads them: what was derived of them, and behind it the newest batches."""

from __future__ import annotations

import os
from contextlib import suppress

from leadline.analysis.rollup_schema import Form
from leadline.reader.bulk import BulkStream, Range
from leadline.reader.compact import ParquetPart, PartChain, compact_places, streams_of
from leadline.store import layout


class Stream:
    """One stream.

    Attributes:
        tail: The batches behind the derived files.
        is_waiting: There is more behind them than should be read as it is; it waits to be compacted.
    """

    def __init__(self, run: str, form: Form, name: str) -> None:
        self.name, self.form = name, form
        self.tail: list[Range] = []
        self.is_waiting = False
        self.version = 0
        """Another one whenever there is something new."""
        self._run = run
        self._chain = PartChain(_place(run), form.part, name)
        self._reading = BulkStream(run, form.part, name)

    @property
    def parts(self) -> list[ParquetPart]:
        """What was derived."""
        return self._chain.parts

    @property
    def damage(self) -> list[str]:
        """Why some of it cannot be read."""
        return self._reading.damage

    def share(self) -> tuple[int, int]:
        """How many bytes of the segments were taken in, and how many there are."""
        there = self._reading.all_bytes
        return there - self._reading.left_bytes, there

    def refresh(self, most_bytes: int | None) -> None:
        """Take in what came.

        Args:
            most_bytes: So much is read as it is, at most.
        """
        if not self._chain.parts and (place := _place(self._run)) != self._chain.place:
            self._chain = PartChain(place, self.form.part, self.name)
        if self._chain.refresh():
            self._reading = BulkStream(self._run, self.form.part, self.name, self._chain.position)
            self.tail = []
            self.version += 1
        left = self._reading.left_bytes
        self.is_waiting = most_bytes is not None and left > most_bytes
        if left and not self.is_waiting:
            new = [each for each in self._reading.read(left) if len(each.rows)]
            self.tail += new
            self.version += bool(new)

    def rows_between(self, start_ns: int, end_ns: int, most_bytes: int) -> list[Range]:
        """The batches in which rows of an interval may stand; of the derived files only where to begin is taken.

        Args:
            most_bytes: More is not read.
        """
        begin: dict[str, int] = {}
        passed: dict[str, int] = {}
        size = most_bytes
        for first_ns, last_ns, position in (mark for part in self.parts for mark in part.said.get("marks", ())):
            passed = {**passed, **position}
            if last_ns < start_ns:
                begin = passed
            elif first_ns is not None and first_ns > end_ns:
                size = sum(passed.values()) - sum(begin.values())
                break
        return BulkStream(self._run, self.form.part, self.name, begin).read(max(min(size, most_bytes), 1))

    def forget(self, path: str) -> None:
        """A derived file turned out to be damaged: it is done without, and made anew once it is gone."""
        self._chain.forget(path)
        with suppress(OSError):
            os.unlink(path)
        self._reading = BulkStream(self._run, self.form.part, self.name, self._chain.position)
        self.tail = []
        self.version += 1


def _place(run: str) -> str:
    """Where what was derived of a run lies."""
    there = [place for place in compact_places(run) if os.path.isdir(os.path.join(place, layout.COMPACT))]
    return there[0] if there else run


class Streams:
    """All streams of one form."""

    def __init__(self, run: str, form: Form) -> None:
        self._run, self._form = run, form
        self.all: dict[str, Stream] = {}

    def refresh(self, most_bytes: int | None) -> None:
        """Take in what came, new streams too."""
        for name in streams_of(self._run, self._form.part):
            if name not in self.all:
                self.all[name] = Stream(self._run, self._form, name)
        for each in self.all.values():
            each.refresh(most_bytes)

    @property
    def version(self) -> int:
        """Another one whenever there is something new."""
        return sum(each.version for each in self.all.values()) + len(self.all)

    def latest_ns(self) -> int | None:
        """The latest moment that the derived files tell of."""
        told = [part.said.get("end_ns") for each in self.all.values() for part in each.parts]
        return max((each for each in told if each is not None), default=None)
