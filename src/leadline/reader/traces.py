"""torch.profiler's trace of a detailed window: every call with its step, phase and module."""

from __future__ import annotations

import gzip
import json
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from leadline.errors import DamagedRunError
from leadline.store import layout
from leadline.store.documents import read_document

_BACKWARD: Final = "autograd::engine::evaluate_function"
_OPTIMIZER: Final = "Optimizer."
_HOST: Final = ("cpu_op", "user_annotation")
_MEMORY: Final = "[memory]"
_DEVICE: Final = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(slots=True)
class _Call:
    """One event of the trace, with what its place in the others tells."""

    event: Mapping[str, Any]
    start_us: float
    total_us: float
    own_us: float
    phase: str = ""
    module: str | None = None
    children: list[_Call] = field(default_factory=list)

    @property
    def sequence(self) -> int | None:
        """What joins a forward operator and the backward one that it caused."""
        found = self.event.get("args", {}).get("Sequence number")
        return int(found) if found is not None else None

    @property
    def is_operator(self) -> bool:
        return bool(self.event["cat"] == "cpu_op")

    @property
    def allocated_bytes(self) -> int:
        """What it allocated itself, less what it freed."""
        own = (each.event for each in self.children if each.event["name"] == _MEMORY)
        return sum(int(each["args"]["Bytes"]) for each in own)


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """Something of a window's trace that took its time: a module's forward pass, an operator, a kernel."""

    kind: Literal["module", "operator", "annotation", "device"]
    name: str
    track: str
    """``thread 4711``, ``gpu0 stream 7``."""
    start_ns: int
    duration_ns: int
    step: int
    mode: str
    phase: str
    module: str


def read_slices(folder: str) -> list[TraceSlice]:
    """All that a window's trace has, each track by start and the longest first.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    trace, steps = _read(folder)
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    events, calls = _placed(trace)
    by_id = _by_id(calls)
    found = [
        _slice(call.event, _row(call, "cpu", base_ns, steps), f"thread {call.event['tid']}")
        for call in calls
        if call.event["name"] != _MEMORY
    ]
    for event in events:
        if event.get("cat") in _DEVICE:
            row = _device_row(event, by_id.get(event.get("args", {}).get("External id")), base_ns, steps)
            found.append(_slice(event, row, f"{row['device']} stream {event.get('args', {}).get('stream', 0)}"))
    return sorted(found, key=lambda each: (each.track, each.start_ns, -each.duration_ns))


def _slice(event: Mapping[str, Any], row: Mapping[str, Any], track: str) -> TraceSlice:
    name, kind = str(event["name"]), "operator" if event["cat"] == "cpu_op" else "annotation"
    if name.startswith(layout.MODULE_MARK):
        name, kind = row["module"], "module"
    if event["cat"] in _DEVICE:
        kind = "device"
    placed = {key: row[key] for key in ("step", "mode", "phase", "module")}
    return TraceSlice(kind, name, track, row["start_ns"], row["total_ns"], **placed)  # type: ignore[arg-type]


def _read(folder: str) -> tuple[Mapping[str, Any], _Steps]:
    path = os.path.join(folder, layout.TRACE)
    try:
        with gzip.open(path, "rt") as file:
            return json.load(file), _Steps(read_steps(folder))
    except (OSError, ValueError, EOFError) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from None


def read_rows(folder: str) -> Iterator[dict[str, Any]]:
    """The operator calls of a window, as ``reader.operators.CALLS`` names them, without worker and window.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    yield from _rows(*_read(folder))


def read_steps(folder: str) -> list[dict[str, Any]]:
    """The steps of a window: ``step``, ``mode``, ``start_ns``, ``end_ns``, ``marks``."""
    return list((read_document(os.path.join(folder, layout.TRACE_STEPS)) or {}).get("steps", []))


class _Steps:
    """Which step a moment belongs to."""

    def __init__(self, steps: Sequence[Mapping[str, Any]]) -> None:
        self._steps = list(steps)
        self._starts = [each["start_ns"] for each in steps]

    def at(self, time_ns: int) -> tuple[int, str]:
        place = max(0, bisect_right(self._starts, time_ns) - 1)
        return (self._steps[place]["step"], self._steps[place]["mode"]) if self._steps else (-1, "")

    def is_before_backward(self, time_ns: int) -> bool:
        """Whether the step's backward pass had not begun."""
        place = max(0, bisect_right(self._starts, time_ns) - 1)
        begun = self._steps[place]["marks"].get("backward") if self._steps else None
        return begun is None or time_ns < begun


def _rows(trace: Mapping[str, Any], steps: _Steps) -> Iterator[dict[str, Any]]:
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    has_memory = bool(trace.get("profile_memory"))
    events, calls = _placed(trace)
    by_id = _by_id(calls)
    for call in calls:
        if call.is_operator:
            yield _row(call, "cpu", base_ns, steps) | {"memory_bytes": call.allocated_bytes if has_memory else None}
    for event in events:
        if event.get("cat") in _DEVICE:
            yield _device_row(event, by_id.get(event.get("args", {}).get("External id")), base_ns, steps)


def _placed(trace: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[_Call]]:
    """The events of a trace, and the calls of the host among them, each with its place."""
    events = [each for each in trace["traceEvents"] if each.get("ph") == "X" or each.get("name") == _MEMORY]
    roots = [root for thread in _by_thread(events).values() for root in _nest(thread)]
    for root in roots:
        _place(root, "", None)
    calls = [call for root in roots for call in _walk(root)]
    _join(calls)
    return events, calls


def _by_id(calls: Iterable[_Call]) -> dict[Any, _Call]:
    return {call.event["args"].get("External id"): call for call in calls if call.is_operator}


def _by_thread(events: Iterable[Mapping[str, Any]]) -> dict[Any, list[_Call]]:
    threads: dict[Any, list[_Call]] = defaultdict(list)
    for each in events:
        if each.get("cat") in _HOST or each["name"] == _MEMORY:
            length = float(each.get("dur", 0.0))
            threads[each["tid"]].append(_Call(each, float(each["ts"]), length, length))
    return threads


def _nest(calls: list[_Call]) -> list[_Call]:
    """Put each call of a thread below the one that made it; those that nobody made."""
    roots: list[_Call] = []
    stack: list[_Call] = []
    for call in sorted(calls, key=lambda each: (each.start_us, -each.total_us)):
        while stack and call.start_us >= stack[-1].start_us + stack[-1].total_us:
            stack.pop()
        (stack[-1].children if stack else roots).append(call)
        stack.append(call)
    for call in calls:
        call.own_us = max(0.0, call.total_us - sum(_operator_us(each) for each in call.children))
    return roots


def _operator_us(call: _Call) -> float:
    """What operators take of a call's time: its own where it is one, else those directly below it."""
    return call.total_us if call.is_operator else sum(map(_operator_us, call.children))


def _place(call: _Call, phase: str, module: str | None) -> None:
    """Tell what a call is part of."""
    name = str(call.event["name"])
    if name.startswith(layout.MODULE_MARK):
        module = name.removeprefix(layout.MODULE_MARK)
    elif name.startswith(_BACKWARD):
        phase = "backward"
    elif name.startswith(_OPTIMIZER):
        phase = "optimizer"
    call.phase, call.module = phase, module
    for each in call.children:
        _place(each, phase, module)


def _walk(call: _Call) -> Iterator[_Call]:
    yield call
    for each in call.children:
        yield from _walk(each)


def _join(calls: Sequence[_Call]) -> None:
    """Give backward calls the module of the forward call that they belong to."""
    homes: dict[int, str] = {}
    for call in calls:
        if call.sequence is not None and call.module is not None and call.phase != "backward":
            homes.setdefault(call.sequence, call.module)
    for call in calls:
        if call.phase == "backward" and call.module is None and call.sequence in homes:
            _give(call, homes[call.sequence])


def _give(call: _Call, module: str) -> None:
    call.module = module
    for each in call.children:
        if each.module is None:
            _give(each, module)


def _row(call: _Call, device: str, base_ns: int, steps: _Steps) -> dict[str, Any]:
    start_ns = base_ns + round(call.start_us * 1000)
    step, mode = steps.at(start_ns)
    phase = call.phase or ("forward" if call.module is not None or steps.is_before_backward(start_ns) else "other")
    return {
        "step": step,
        "mode": mode,
        "phase": phase,
        "operator": call.event["name"],
        "module": call.module or "",
        "device": device,
        "start_ns": start_ns,
        "total_ns": round(call.total_us * 1000),
        "own_ns": round(call.own_us * 1000),
        "thread": int(call.event["tid"]),
        "memory_bytes": None,
    }


def _device_row(event: Mapping[str, Any], caller: _Call | None, base_ns: int, steps: _Steps) -> dict[str, Any]:
    """A kernel: part of what the operator that launched it is part of, at that operator's step."""
    length = float(event["dur"])
    call = _Call(event, float(event["ts"]), length, length)
    device = f"gpu{event.get('args', {}).get('device', 0)}"
    row = _row(call, device, base_ns, steps)
    if caller is None:
        return row | {"phase": "other"}
    origin = _row(caller, device, base_ns, steps)
    return row | {name: origin[name] for name in ("step", "mode", "phase", "module")}
