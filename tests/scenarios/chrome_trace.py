"""Checks of a trace against the Chrome trace format, independent of the code that writes it."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

_NS: Final = 0.0011
"""Microseconds: one nanosecond and the rounding error."""


def read_trace(path: str) -> dict[str, Any]:
    """Read a trace and check its format."""
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
        trace = dict(json.load(file, parse_constant=_refuse))
    check_trace(trace)
    return trace


def check_trace(trace: Mapping[str, Any]) -> None:
    """Check that viewers can show the whole trace: named processes and threads, nested slices, numeric counters."""
    events = trace["traceEvents"]
    threads: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        _check_event(event)
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    _check_names(events, set(threads) | {(event["pid"], event["tid"]) for event in events if event["ph"] == "i"})
    for slices in threads.values():
        _check_nesting(slices)


def tracks(trace: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return slices and instants by the names of their process and thread."""
    events = trace["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    by_track: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] in "Xi":
            by_track[processes[event["pid"]], threads[event["pid"], event["tid"]]].append(event)
    return by_track


def _refuse(word: str) -> None:
    raise AssertionError(f"JSON has no {word}")


def _check_event(event: Mapping[str, Any]) -> None:
    assert event["ph"] in {"X", "M", "C", "i"}, event
    assert isinstance(event["name"], str), event
    assert event["name"], event
    assert isinstance(event["pid"], int), event
    assert event["pid"] > 0, event
    assert isinstance(event["tid"], int), event
    assert isinstance(event.get("args", {}), dict), event
    if event["ph"] != "M":
        assert math.isfinite(event["ts"]), event
        assert event["ts"] >= 0, event
    if event["ph"] == "X":
        assert math.isfinite(event["dur"]), event
        assert event["dur"] >= 0, event
    if event["ph"] == "C":
        assert all(isinstance(value, int | float) and math.isfinite(value) for value in event["args"].values()), event
    if event["ph"] == "i":
        assert event["s"] in ("g", "p", "t"), event


def _check_names(events: Iterable[Mapping[str, Any]], used: set[tuple[int, int]]) -> None:
    processes = [event["pid"] for event in events if event["name"] == "process_name"]
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(processes) == len(set(processes)), "a process has two names"
    assert len(threads) == len(set(threads)), "a thread has two names"
    assert used <= set(threads), f"threads without a name: {used - set(threads)}"
    assert {event["pid"] for event in events} <= set(processes), "a process has no name"
    assert len({tid for _, tid in threads}) == len(threads), "two processes share a thread's number"


def _check_nesting(slices: Iterable[Mapping[str, Any]]) -> None:
    """Check that two slices of a thread are nested, or one after the other."""
    open_until: list[float] = []
    for slice_ in sorted(slices, key=lambda one: (one["ts"], -one["dur"])):
        end = slice_["ts"] + slice_["dur"]
        while open_until and open_until[-1] <= slice_["ts"] + _NS:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + _NS, f"{slice_} overlaps"
        open_until.append(end)
