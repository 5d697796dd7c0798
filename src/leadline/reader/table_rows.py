"""Rows of Arrow tables as dictionaries."""

from __future__ import annotations

from typing import Any, TypedDict

TableRow = dict[str, Any]
"""The values of a row by column, of a table that is read with different columns: the types are those of its schema."""


class SystemRow(TypedDict):
    """A row of ``SYSTEM``: a sample of a metric."""

    time_ns: int
    node: str
    kind: str
    device: str
    metric: str
    value: float


class TimelineRow(TypedDict):
    """A row of ``TIMELINE``: an event of a worker."""

    worker: str
    name: str
    phase: str
    step: int
    start_ns: int
    duration_ns: int
    thread: int
    args: str
    """As JSON."""


class BucketRow(TypedDict):
    """A row of ``SCALAR_BUCKETS``: some values of a series, at neighbouring steps."""

    name: str
    mode: str
    worker: str
    step: int
    value: float
    """The mean of those that are finite."""
    min: float
    max: float
    nonfinite: int
    samples: int


class FindingRow(TypedDict):
    """A row of ``FINDINGS``."""

    rule: str
    id: int
    step: int
    last_step: int
    is_open: bool
    time_ns: int
    message: str
    suggestion: str
    tensors: list[str]
    tensor_count: int
    worker: str | None
    count: int
    evidence: str
    """As JSON."""
    global_step: int
