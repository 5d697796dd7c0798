"""Rows of profiles, as they are read from files and before they are tables."""

from __future__ import annotations

from typing import TypedDict

from leadline.records.json_object import JsonObject


class OperatorRow(TypedDict):
    """A call of an operator: a row of ``CALLS`` without worker and window."""

    step: int
    mode: str
    phase: str
    operator: str
    module: str
    device: str
    start_ns: int
    total_ns: int
    own_ns: int
    thread: int
    memory_bytes: int | None


class HorovodRow(TypedDict):
    """An activity of a tensor in a timeline of Horovod, by the clock of its file."""

    tensor: str
    activity: str
    depth: int
    start_us: int
    length_us: int
    args: JsonObject


class HorovodTableRow(TypedDict):
    """An activity by the wall clock: a row of ``HOROVOD``."""

    worker: str
    tensor: str
    activity: str
    depth: int
    start_ns: int
    duration_ns: int
    args: str
    """As JSON."""


class SliceRow(TypedDict):
    """A slice of a Python profile: a phase of a step."""

    worker: str
    window: str
    step: int
    mode: str
    phase: str
    start_ns: int
    end_ns: int


class SampledSlice(SliceRow):
    """A slice of a sampled profile."""

    global_step: int
    session: JsonObject
    """The session of pyinstrument."""


class WindowRow(TypedDict):
    """A profile window: a row of ``WINDOWS``."""

    worker: str
    id: str
    kind: str
    timer: str
    part: str
    first_step: int
    end_step: int
    steps: int
    start_ns: int
    end_ns: int
    bytes: int
    notes: list[str]
