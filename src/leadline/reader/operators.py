"""Operator calls of detailed windows as tables."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from leadline.reader.traces import read_rows

CALLS: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("window", pa.string()),
        ("step", pa.int64()),
        ("mode", pa.string()),
        ("phase", pa.string()),
        ("operator", pa.string()),
        ("module", pa.string()),
        ("device", pa.string()),
        ("start_ns", pa.int64()),
        ("total_ns", pa.int64()),
        ("own_ns", pa.int64()),
        ("thread", pa.int64()),
        ("memory_bytes", pa.int64()),
    ]
)
"""A row for each call. ``own_ns`` is without the operators that it called, ``memory_bytes`` what it allocated itself
less what it freed (null: not recorded); ``phase`` is ``forward``, ``backward``,
``optimizer`` or ``other``; ``module`` is ``""`` where no module's forward pass made the call."""


def read_calls(folder: str, worker: str, window: str) -> pa.Table:
    """The calls of one window, as ``CALLS``.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    rows = list(read_rows(folder))
    columns = {name: [row[name] for row in rows] for name in CALLS.names[2:]}
    return pa.table({"worker": [worker] * len(rows), "window": [window] * len(rows), **columns}, schema=CALLS)
