"""What the Chrome trace format asks of a trace, checked without any of the code that writes one."""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

_NS: Final = 0.0011
"""Microseconds: a nanosecond, and what rounding adds."""


def read_trace(path: str) -> dict[str, Any]:
    """A trace, once all that the format asks is checked."""
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
        trace = dict(json.load(file, parse_constant=_refuse))
    check_trace(trace)
    return trace


def check_trace(trace: Mapping[str, Any]) -> None:
    """Check that viewers show all of a trace: named processes and threads, nested slices, counters with numbers."""
    events = trace["traceEvents"]
    threads: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for each in events:
        _check_event(each)
        if each["ph"] == "X":
            threads[each["pid"], each["tid"]].append(each)
    _check_names(events, set(threads) | {(each["pid"], each["tid"]) for each in events if each["ph"] == "i"})
    for slices in threads.values():
        _check_nesting(slices)


def tracks(trace: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Slices and instants by the names of their process and thread."""
    events = trace["traceEvents"]
    processes = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    threads = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["name"] == "thread_name"}
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for each in events:
        if each["ph"] in "Xi":
            found[processes[each["pid"]], threads[each["pid"], each["tid"]]].append(each)
    return found


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
        assert all(isinstance(each, int | float) and math.isfinite(each) for each in event["args"].values()), event
    if event["ph"] == "i":
        assert event["s"] in ("g", "p", "t"), event


def _check_names(events: Iterable[Mapping[str, Any]], used: set[tuple[int, int]]) -> None:
    processes = [each["pid"] for each in events if each["name"] == "process_name"]
    threads = [(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"]
    assert len(processes) == len(set(processes)), "a process has two names"
    assert len(threads) == len(set(threads)), "a thread has two names"
    assert used <= set(threads), f"threads without a name: {used - set(threads)}"
    assert {each["pid"] for each in events} <= set(processes), "a process has no name"
    assert len({tid for _, tid in threads}) == len(threads), "two processes share a thread's number"


def _check_nesting(slices: Iterable[Mapping[str, Any]]) -> None:
    """Two slices of a thread lie one within the other, or one behind the other."""
    open_until: list[float] = []
    for each in sorted(slices, key=lambda one: (one["ts"], -one["dur"])):
        end = each["ts"] + each["dur"]
        while open_until and open_until[-1] <= each["ts"] + _NS:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + _NS, f"{each} overlaps"
        open_until.append(end)
