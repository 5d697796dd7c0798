"""Horovod's own timeline: which tensor waited for other ranks, and was exchanged, when."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from leadline.store import layout
from leadline.store.documents import read_document

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
"""A row for each activity that has ended; ``depth`` counts the activities of the same tensor that it lies within."""
_START: Final = "start_time_since_epoch_in_micros"
_MARKS: Final = ("i", "I", "X")


def read_horovod(run: str) -> pa.Table:
    """What was copied of Horovod's timelines so far, as ``HOROVOD``, by start."""
    rows = [row for worker in _workers(run) for row in _rows_of(run, worker)]
    rows.sort(key=lambda each: (each["start_ns"], -each["duration_ns"]))
    return pa.Table.from_pylist(rows, HOROVOD)


def _workers(run: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(run, layout.PROFILES)))
    except FileNotFoundError:
        return []


def _rows_of(run: str, worker: str) -> Iterator[dict[str, Any]]:
    folder = os.path.join(run, layout.horovod(worker))
    ordinal = 1
    while os.path.exists(path := os.path.join(folder, layout.horovod_copy(ordinal))):
        clock = read_document(os.path.join(folder, layout.horovod_clock(ordinal))) or {}
        with open(path, "rb") as file:
            events = list(parse_events(file))
        begun_ns = _begin_of(events, clock)
        for row in join_pairs(events):
            times = {"start_ns": begun_ns + row.pop("start_us") * 1000, "duration_ns": row.pop("length_us") * 1000}
            yield {"worker": worker, **row, **times, "args": json.dumps(row["args"])}
        ordinal += 1


def parse_events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events of a file that is still being written: a line each, between commas, and no closing bracket.

    A line that is cut off is not there yet.
    """
    for line in lines:
        text = line.strip().removeprefix(b"[").rstrip(b"],").strip()
        try:
            event = json.loads(text) if text else None
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def join_pairs(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Activities that have ended: their begin and their end as one, and what names no end.

    Horovod gives each tensor a process of its own, and that process the tensor's name.
    """
    names: dict[Any, str] = {}
    begun: dict[tuple[Any, Any], list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        tensor, thread, kind = event.get("pid"), event.get("tid"), event.get("ph")
        open_ones = begun[tensor, thread]
        if kind == "M" and event.get("name") == "process_name" and "name" in event.get("args", {}):
            names[tensor] = str(event["args"]["name"])
        elif kind == "B":
            open_ones.append(event)
        elif kind == "E" and open_ones:
            begin = open_ones.pop()
            length = max(0, round(event["ts"]) - round(begin["ts"]))
            yield _row(names, begin, len(open_ones), length, {**begin.get("args", {}), **event.get("args", {})})
        elif kind in _MARKS:
            yield _row(names, event, len(open_ones), round(event.get("dur", 0)), event.get("args", {}))


def _row(
    names: Mapping[Any, str], begin: Mapping[str, Any], depth: int, length_us: int, args: Mapping[str, Any]
) -> dict[str, Any]:
    tensor = names.get(begin.get("pid"), "")
    return {
        "tensor": tensor,
        "activity": str(begin.get("name", "")),
        "depth": depth,
        "start_us": round(begin["ts"]),
        "length_us": length_us,
        "args": dict(args),
    }


def _begin_of(events: Iterable[Mapping[str, Any]], clock: Mapping[str, Any]) -> int:
    """What the wall clock showed when the file's own clock stood at 0.

    The file says so itself; or its clock is the machine's, which began with the boot; or it began with the file.
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
    """By how much the last event precedes its writing, if the clock is the machine's; else how old the machine was."""
    return int(clock["boot_ns"] if behind_ns < min(stamps) else clock["modified_ns"] - max(stamps))
