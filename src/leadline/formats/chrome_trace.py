"""Chrome's trace format: entries as they are written, and the events that they make up.

Source: "Trace Event Format", Google, 2016. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TextIO

from leadline.records.json_object import JsonObject

_INSTANTS: Final = ("i", "I")


class UnmatchedEndError(ValueError):
    """An entry ends an event that none has begun."""


def entry(
    kind: str,
    name: str,
    pid: int,
    *,
    tid: int | None = None,
    start_us: float | None = None,
    duration_us: float | None = None,
    category: str = "",
    scope: str = "",
    args: Mapping[str, Any] | None = None,
) -> JsonObject:
    """Return an entry.

    Args:
        kind: ``X`` an event with a duration, ``B`` and ``E`` the begin and end of one, ``i`` an instant, ``C`` a sample
            of a counter, ``M`` a name or place of a process or thread.
        scope: Of an instant: ``t``, ``p`` or ``g``, as wide as it is drawn.
    """
    facts = {"ph": kind, "name": name, "pid": pid, "tid": tid, "ts": start_us, "dur": duration_us}
    return {key: value for key, value in facts.items() if value is not None} | {
        key: value for key, value in (("cat", category), ("s", scope), ("args", args)) if value
    }


class TraceWriter:
    """Writes entries one by one, so that memory does not grow with a trace.

    Args:
        head: What precedes the entries; ``[`` for a file that has nothing else.
    """

    def __init__(self, file: TextIO, head: str = "[") -> None:
        self._file, self._separator = file, ""
        file.write(head)

    def put(self, *entries: str) -> None:
        """Write entries that ``encoded`` returned."""
        for text in entries:
            self._file.write(f"{self._separator}\n{text}")
            self._separator = ","

    def close(self, tail: str = "\n]") -> None:
        """End the list of entries."""
        self._file.write(tail)


def encoded(one: Mapping[str, Any]) -> str:
    """Return an entry as JSON; NaN and infinity, which JSON cannot represent, as strings.

    Raises:
        TypeError: A fact is nothing that JSON has.
    """
    try:
        return json.dumps(one, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(one), separators=(",", ":"), allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, slots=True)
class JoinedEvent:
    """A complete event or an instant."""

    name: str
    process: str | None
    """The name of its process; None: the process has none."""
    thread: Any
    start_us: float
    duration_us: float
    args: Mapping[str, Any]
    """Those of its begin and of its end, if they were written apart."""
    depth: int
    """The number of begun events of its thread that enclose it."""


class EventJoiner:
    """Joins the entries of a trace to events."""

    def __init__(self) -> None:
        self._processes: dict[Any, str] = {}
        self._begun: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}

    def add(self, one: Mapping[str, Any]) -> JoinedEvent | None:
        """Return the event that an entry completes; None if it completes none.

        An end without a name ends the event that was begun last in its thread, otherwise the last one of its name.

        Raises:
            UnmatchedEndError: There is none.
            KeyError, TypeError, ValueError, AttributeError: The entry is damaged.
        """
        kind, pid, thread, args = one["ph"], one.get("pid"), one.get("tid", 0), one.get("args") or {}
        if kind == "M":
            if one.get("name") == "process_name" and "name" in args:
                self._processes[pid] = str(args["name"])
            return None
        begun = self._begun.setdefault((pid, thread), [])
        if kind == "B":
            float(one["ts"])
            begun.append(one)
            return None
        if kind == "E":
            end_us, begin = float(one["ts"]), begun.pop(_last(begun, str(one.get("name", ""))))
            length_us = max(0.0, end_us - float(begin["ts"]))
            return self._event(begin, length_us, {**(begin.get("args") or {}), **args}, len(begun))
        if kind != "X" and kind not in _INSTANTS:
            return None
        return self._event(one, max(0.0, float(one.get("dur", 0))) if kind == "X" else 0.0, dict(args), len(begun))

    def _event(self, one: Mapping[str, Any], length_us: float, args: Mapping[str, Any], depth: int) -> JoinedEvent:
        process = self._processes.get(one.get("pid"))
        start_us, name = float(one["ts"]), str(one.get("name", ""))
        return JoinedEvent(name, process, one.get("tid", 0), start_us, length_us, args, depth)


def _last(begun: list[Mapping[str, Any]], name: str) -> int:
    """Return the index of the event that an end with a name ends."""
    for index in range(len(begun) - 1, -1, -1):
        if name in ("", str(begun[index].get("name", ""))):
            return index
    raise UnmatchedEndError(f"the end of {name!r} without its begin")
