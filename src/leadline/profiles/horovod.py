"""Reader of Horovod timelines: negotiation and exchange of each tensor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from leadline.formats.chrome_trace import EventJoiner, JoinedEvent, UnmatchedEndError
from leadline.profiles.rows import HorovodRow, HorovodTableRow
from leadline.records.json_object import JsonObject
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.folder_watch import names_in
from leadline.store.run_files import IrregularFileError, regular_lines

HOROVOD: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("tensor", pa.string()),
        ("activity", pa.string()),
        ("depth", pa.int64()),
        ("start_ns", pa.int64()),
        ("duration_ns", pa.int64()),
        ("args", pa.string()),
    ]
)
"""One row per completed activity; ``depth`` is the number of enclosing activities of the same tensor."""
_START: Final = "start_time_since_epoch_in_micros"


def read_horovod(run: str) -> pa.Table:
    """Read the copied parts of the Horovod timelines as ``HOROVOD``, ordered by start."""
    rows = [row for worker in names_in(os.path.join(run, layout.PROFILES)) for row in _rows_of(run, worker)]
    rows.sort(key=lambda row: (row["start_ns"], -row["duration_ns"]))
    return pa.Table.from_pylist(rows, HOROVOD)


def has_horovod(run: str) -> bool:
    """Return whether a part of a Horovod timeline was copied."""
    folders = [layout.horovod(worker) for worker in names_in(os.path.join(run, layout.PROFILES))]
    return any(os.path.exists(os.path.join(run, folder, layout.horovod_copy(1))) for folder in folders)


def _rows_of(run: str, worker: str) -> Iterator[HorovodTableRow]:
    folder = os.path.join(run, layout.horovod(worker))
    ordinal = 1
    while os.path.exists(path := os.path.join(folder, layout.horovod_copy(ordinal))):
        clock = read_document(os.path.join(folder, layout.horovod_clock(ordinal))) or {}
        try:
            events = list(parse_events(regular_lines(path)))
        except IrregularFileError:  # nothing that Horovod has written
            break
        offset_ns = _clock_offset_ns(events, clock)
        for row in join_pairs(events):
            yield {
                "worker": worker,
                "tensor": row["tensor"],
                "activity": row["activity"],
                "depth": row["depth"],
                "start_ns": offset_ns + row["start_us"] * 1000,
                "duration_ns": row["length_us"] * 1000,
                "args": json.dumps(row["args"]),
            }
        ordinal += 1


def parse_events(lines: Iterable[bytes]) -> Iterator[JsonObject]:
    """Yield the events of a file that is still being written.

    Horovod writes one event per line, or since its timeline can be started later, many: it ends the list after each of
    them, and replaces the bracket by a comma when it writes the next. A copy that has grown with the file still has the
    bracket. An incomplete event is skipped.
    """
    decoder = json.JSONDecoder()
    for line in lines:
        text = line.decode(errors="replace")
        start = text.find("{")
        while start >= 0:
            try:
                event, end = decoder.raw_decode(text, start)
            except ValueError:
                break
            yield event
            start = text.find("{", end)


def join_pairs(events: Iterable[Mapping[str, Any]]) -> Iterator[HorovodRow]:
    """Join begin and end events to completed activities; instant and complete events are yielded as they are.

    Horovod represents each tensor as a process, whose name is the name of the tensor.
    """
    joiner = EventJoiner()
    for event in (event for event in events if "ph" in event):
        with suppress(UnmatchedEndError):
            joined = joiner.add(event)
            if joined is not None:
                yield _row(joined)


def _row(event: JoinedEvent) -> HorovodRow:
    start_us = round(event.start_us)
    return {
        "tensor": event.process or "",
        "activity": event.name,
        "depth": event.depth,
        "start_us": start_us,
        "length_us": round(event.start_us + event.duration_us) - start_us,
        "args": dict(event.args),
    }


def _clock_offset_ns(events: Iterable[Mapping[str, Any]], clock: Mapping[str, Any]) -> int:
    """Return the wall-clock time of timestamp 0 in the file.

    The file contains it; or its timestamps count from the boot of the machine; or from the creation of the file.
    """
    stamps = []
    for event in events:
        started = event.get("args", {}).get(_START)
        if started is not None:
            return int(started) * 1000
        if "ts" in event:
            stamps.append(int(event["ts"]) * 1000)
    if not stamps or not clock:
        return 0
    behind_ns = clock["modified_ns"] - clock["boot_ns"] - max(stamps)
    """If timestamps count from boot: time from the last event to its writing; otherwise the machine's uptime before."""
    return int(clock["boot_ns"] if behind_ns < min(stamps) else clock["modified_ns"] - max(stamps))
