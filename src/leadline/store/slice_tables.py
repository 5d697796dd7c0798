"""The rows of a Python profile's slice in its tables: ``functions.arrow`` and ``calls.arrow``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from leadline.store.segments import Segment


class OfSlice(Protocol):
    """A slice of a profile: a phase of a step, or the start or the end of the process."""

    @property
    def step(self) -> int: ...
    @property
    def mode(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


def append_slice(segment: Segment, sequence: int, part: OfSlice, rows: Iterable[Mapping[str, int | str]]) -> None:
    """Append the rows of a slice as one batch.

    Raises:
        OSError: See ``Segment.append``.
    """
    stamp: dict[str, int | str] = {
        "step": part.step,
        "mode": part.mode,
        "phase": part.phase,
        "start_ns": part.start_ns,
        "end_ns": part.end_ns,
    }
    segment.append_records(sequence, [{**stamp, **row} for row in rows])
