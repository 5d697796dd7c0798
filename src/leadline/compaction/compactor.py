"""Compacting a run: stream by stream, a bounded piece at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from leadline.analysis.rollup_schema import FORMS, SAMPLES, VALUES, Form
from leadline.compaction import parts, series, system, timeline
from leadline.reader import liveness
from leadline.reader.bulk import BulkStream, Range
from leadline.reader.compact import LARGE_BYTES, DamagedPartError, PartChain, compact_places, streams_of
from leadline.store import layout
from leadline.store.documents import make_folder

_GO_BYTES: Final = 12 << 20
"""What is read in one go."""
_WORTH_BYTES: Final = 8 << 20
"""How much must have come to a stream before it is worth a go while the run goes on."""
_FEW_BYTES: Final = 64 << 10
_FAN: Final = 8
"""So many files are put together into one."""


@dataclass(slots=True)
class _Stream:
    """One stream with what was derived of it."""

    form: Form
    name: str
    chain: PartChain
    left_bytes: int = 0


class Compactor:
    """Derives sorted files from a run's segments; nothing else of the run is touched.

    Args:
        run: Its folder.
        place: Where ``compact`` lies: the run itself, or a folder of the user's cache.
    """

    def __init__(self, run: str, place: str | None = None) -> None:
        self.run, self.place = run, place or writable_place(run)
        told = os.environ.get("LEADLINE_COMPACT_BYTES", "")
        self._least_bytes = int(told) if told.isdecimal() else LARGE_BYTES
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._stuck: set[tuple[str, str]] = set()

    @contextmanager
    def alone(self, *, is_patient: bool = False) -> Iterator[bool]:
        """Whether nobody else compacts the run, for as long as this lasts.

        Args:
            is_patient: Who does is waited for.
        """
        make_folder(os.path.join(self.place, layout.COMPACT))
        path = os.path.join(self.place, layout.COMPACT_LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)

    def compact(self, *, is_final: bool | None = None) -> int:
        """Compact what is worth it.

        Args:
            is_final: Whether little pieces are worth it too; None: if the run is over.
        Returns:
            How many goes that took.
        """
        is_over = liveness.is_over(self.run)
        self._sweep()
        self._look()
        if is_final is None:
            is_final = is_over
        goes = 0
        while (stream := self._next(is_final=is_final)) is not None:
            goes += self._go(stream, is_over=is_over)
        return goes

    def is_large(self) -> bool:
        """Whether there is so much that it is worth it."""
        self._look()
        return sum(each.left_bytes for each in self._streams.values()) >= self._least_bytes or any(
            each.chain.parts for each in self._streams.values()
        )

    def _sweep(self) -> None:
        """Remove what one that was killed left half-written."""
        for folder, _, names in os.walk(os.path.join(self.place, layout.COMPACT)):
            for name in names:
                if name.endswith(".part"):
                    os.unlink(os.path.join(folder, name))

    def _look(self) -> None:
        for form in FORMS:
            for name in streams_of(self.run, form.part):
                if (form.part, name) not in self._streams:
                    chain = PartChain(self.place, form.part, name)
                    self._streams[form.part, name] = _Stream(form, name, chain)
        for each in self._streams.values():
            each.chain.refresh()
            each.left_bytes = BulkStream(self.run, each.form.part, each.name, each.chain.position).left_bytes

    def _next(self, *, is_final: bool) -> _Stream | None:
        """The stream with the most to do, if it is worth it."""
        left = {key: each for key, each in self._streams.items() if key not in self._stuck}
        most = max(left.values(), key=lambda each: each.left_bytes, default=None)
        few = min(_FEW_BYTES, self._least_bytes)
        worth = few if is_final else max(few, min(_WORTH_BYTES, 2 * LARGE_BYTES // max(len(left), 1)))
        return most if most is not None and most.left_bytes >= worth else None

    def _go(self, stream: _Stream, *, is_over: bool) -> int:
        """One go; 0 where nothing could be done, and nothing more will be."""
        reading = BulkStream(self.run, stream.form.part, stream.name, stream.chain.position)
        found = [each for each in reading.read(_GO_BYTES) if len(each.rows)]
        is_whole = is_over and reading.left_bytes == 0
        if not found or not self._write(stream, found, reading, is_whole=is_whole):
            self._stuck.add((stream.form.part, stream.name))
            return 0
        before = stream.chain.position
        stream.chain.refresh()
        if stream.chain.position == before:  # it cannot be read again
            self._stuck.add((stream.form.part, stream.name))
            return 0
        self._merge(stream)
        position = stream.chain.position
        stream.left_bytes = BulkStream(self.run, stream.form.part, stream.name, position).left_bytes
        return 1

    def _write(self, stream: _Stream, found: list[Range], reading: BulkStream, *, is_whole: bool) -> bool:
        """Write a file; whether it goes further than the one before."""
        goes = (stream.chain.next_go, stream.chain.next_go)
        before = stream.chain.parts[-1].said if stream.chain.parts else {}
        writer = parts.FormWriter(self.place, stream.form, stream.name, goes)
        try:
            said: dict[str, Any] = {"position": reading.position}
            if stream.form is SAMPLES:
                said |= system.write_samples(writer, found)
            elif stream.form is VALUES:
                said |= series.write_values(writer, found)
            else:
                words = timeline.write_steps(writer, found, worker=stream.name, before=before, is_whole=is_whole)
                said |= {**words, "position": {**stream.chain.position, **words["position"]}}
                if said["position"] == stream.chain.position:
                    writer.abandon()
                    return False
            writer.close(said)
        except BaseException:
            writer.abandon()
            raise
        return True

    def _merge(self, stream: _Stream) -> None:
        """Put files together of which there are many of one size."""
        while (few := _mergeable(stream.chain)) is not None:
            try:
                parts.merge(self.place, stream.form, stream.name, few)
            except DamagedPartError as error:
                stream.chain.forget(str(error))
                os.unlink(str(error))
            stream.chain.refresh()


def _mergeable(chain: PartChain) -> list[Any] | None:
    """The last files, if there are so many of one size."""
    for at in range(len(chain.parts) - _FAN + 1):
        few = chain.parts[at : at + _FAN]
        if all(each.last == each.first for each in few):  # once: to put large ones together takes much memory
            return few
    return None


def writable_place(run: str) -> str:
    """Where a run's derived files may be written: where there are some, in the run, or in the user's cache."""
    inside, outside = compact_places(run)
    has_some = os.path.isdir(os.path.join(inside, layout.COMPACT))
    return inside if os.access(os.path.join(inside, layout.COMPACT) if has_some else inside, os.W_OK) else outside
