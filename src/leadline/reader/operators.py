"""Operator calls of detailed profile windows, as Arrow tables."""

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
"""One row per call. ``own_ns`` is the self time, without the operators that it called; ``memory_bytes`` the memory
allocated by the call itself minus the memory freed (null: not recorded). ``phase`` is ``forward``, ``backward``,
``optimizer`` or ``other``; ``module`` is ``""`` for calls outside any module's forward pass."""


def read_calls(folder: str, worker: str, window: str) -> pa.Table:
    """Read the calls of one window as ``CALLS``.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    rows = list(read_rows(folder))
    columns = {name: [row[name] for row in rows] for name in CALLS.names[2:]}
    return pa.table({"worker": [worker] * len(rows), "window": [window] * len(rows), **columns}, schema=CALLS)
