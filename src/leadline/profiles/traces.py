"""Reader of the traces of detailed windows: every call with its step, phase and module."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

from leadline.errors import DamagedRunError
from leadline.profiles.rows import OperatorRow
from leadline.profiles.trace_steps import TraceSlice, TraceSteps, content_of, read_steps
from leadline.profiles.xla_operators import has_space, read_space_rows, read_space_slices
from leadline.records.names import START
from leadline.store import layout
from leadline.store.run_files import read_regular

_BACKWARD: Final = "autograd::engine::evaluate_function"
_OPTIMIZER: Final = "Optimizer."
_LOADER: Final = "enumerate(DataLoader)"
_OVERHEAD: Final = "overhead"
"""The phase of Leadline's own computations."""
_MAX_BYTES: Final = 256 << 20
"""The longest trace that is read, packed and unpacked: a window of a large model has some ten megabytes."""
_HOST: Final = ("cpu_op", "user_annotation")
_MEMORY: Final = "[memory]"
_DEVICE: Final = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(slots=True)
class _Call:
    """An event of the trace, with its position in the call tree."""

    event: Mapping[str, Any]
    start_us: float
    total_us: float
    own_us: float
    phase: str = ""
    module: str | None = None
    children: list[_Call] = field(default_factory=list)

    @property
    def sequence(self) -> int | None:
        """The autograd sequence number that links a forward operator to its backward operator."""
        number = self.event.get("args", {}).get("Sequence number")
        return int(number) if number is not None else None

    @property
    def is_operator(self) -> bool:
        return bool(self.event["cat"] == "cpu_op")

    @property
    def allocated_bytes(self) -> int:
        """The memory allocated by the call itself, minus the memory freed."""
        events = (child.event for child in self.children if child.event["name"] == _MEMORY)
        return sum(int(event["args"]["Bytes"]) for event in events)


def read_slices(folder: str) -> list[TraceSlice]:
    """Return all slices of a trace, ordered by track and start, the longest first.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    with content_of(os.path.join(folder, layout.SPACE if has_space(folder) else layout.TRACE)):
        return read_space_slices(folder) if has_space(folder) else _slices(*_read(folder))


def _slices(trace: Mapping[str, Any], steps: TraceSteps) -> list[TraceSlice]:
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    events, calls = _read_events(trace)
    by_id = _by_id(calls)
    slices = [
        _slice(call.event, _row(call, "cpu", base_ns, steps), f"thread {call.event['tid']}")
        for call in calls
        if call.event["name"] != _MEMORY
    ]
    for event in events:
        if event.get("cat") in _DEVICE:
            row = _device_row(event, by_id.get(event.get("args", {}).get("External id")), base_ns, steps)
            slices.append(_slice(event, row, f"{row['device']} stream {event.get('args', {}).get('stream', 0)}"))
    return sorted(slices, key=lambda item: (item.track, item.start_ns, -item.duration_ns))


def _slice(event: Mapping[str, Any], row: Mapping[str, Any], track: str) -> TraceSlice:
    name, kind = str(event["name"]), "operator" if event["cat"] == "cpu_op" else "annotation"
    if name.startswith(layout.MODULE_ANNOTATION):
        name, kind = row["module"], "module"
    if event["cat"] in _DEVICE:
        kind = "device"
    fields = {key: row[key] for key in ("step", "mode", "phase", "module")}
    return TraceSlice(kind, name, track, row["start_ns"], row["total_ns"], **fields)  # type: ignore[arg-type]


def _read(folder: str) -> tuple[Mapping[str, Any], TraceSteps]:
    path = os.path.join(folder, layout.TRACE)
    try:
        with BytesIO(read_regular(path, _MAX_BYTES)) as file, gzip.open(file) as unpacked:
            text = unpacked.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            raise ValueError(f"it unpacks to more than {_MAX_BYTES:,} bytes")
        trace = json.loads(text)
    except (OSError, ValueError, EOFError, zlib.error, RecursionError) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from None
    if not isinstance(trace, dict):
        raise DamagedRunError(f"{path} cannot be read: it is no Chrome trace")
    return trace, TraceSteps(read_steps(folder))


def read_rows(folder: str) -> Iterator[OperatorRow]:
    """Yield the operator calls of a window with the columns of ``profiles.queries.CALLS``, without worker and window.

    Those of Leadline itself are left out.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    with content_of(os.path.join(folder, layout.SPACE if has_space(folder) else layout.TRACE)):
        yield from read_space_rows(folder) if has_space(folder) else _rows(*_read(folder))


def _rows(trace: Mapping[str, Any], steps: TraceSteps) -> Iterator[OperatorRow]:
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    has_memory = bool(trace.get("profile_memory"))
    events, calls = _read_events(trace)
    by_id = _by_id(calls)
    for call in calls:
        if call.is_operator and call.phase != _OVERHEAD:
            row = _row(call, "cpu", base_ns, steps)
            row["memory_bytes"] = call.allocated_bytes if has_memory else None
            yield row
    for event in events:
        if event.get("cat") in _DEVICE:
            caller = by_id.get(event.get("args", {}).get("External id"))
            if caller is None or caller.phase != _OVERHEAD:
                yield _device_row(event, caller, base_ns, steps)


def _read_events(trace: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[_Call]]:
    """Return the events of a trace, and the calls of the host with phase and module."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" or event.get("name") == _MEMORY]
    roots = [root for thread in _by_thread(events).values() for root in _nest(thread)]
    for root in roots:
        _assign_phase(root, "", None)
    calls = [call for root in roots for call in _walk(root)]
    _link_backward(calls)
    return events, calls


def _by_id(calls: Iterable[_Call]) -> dict[Any, _Call]:
    return {call.event["args"].get("External id"): call for call in calls if call.is_operator}


def _by_thread(events: Iterable[Mapping[str, Any]]) -> dict[Any, list[_Call]]:
    threads: dict[Any, list[_Call]] = defaultdict(list)
    for event in events:
        if event.get("cat") in _HOST or event["name"] == _MEMORY:
            length = float(event.get("dur", 0.0))
            threads[event["tid"]].append(_Call(event, float(event["ts"]), length, length))
    return threads


def _nest(calls: list[_Call]) -> list[_Call]:
    """Assign each call of a thread to its caller; return the calls without caller."""
    roots: list[_Call] = []
    stack: list[_Call] = []
    for call in sorted(calls, key=lambda item: (item.start_us, -item.total_us)):
        while stack and call.start_us >= stack[-1].start_us + stack[-1].total_us:
            stack.pop()
        (stack[-1].children if stack else roots).append(call)
        stack.append(call)
    for call in calls:
        call.own_us = max(0.0, call.total_us - sum(_operator_us(child) for child in call.children))
    return roots


def _operator_us(call: _Call) -> float:
    """Return the operator time of a call: its own if it is an operator, otherwise that of the operators below it."""
    return call.total_us if call.is_operator else sum(map(_operator_us, call.children))


def _assign_phase(call: _Call, phase: str, module: str | None) -> None:
    """Assign phase and module to a call and the calls below it."""
    name = str(call.event["name"])
    phase = str(call.event.get("args", {}).get(layout.TRACE_PHASE, phase))
    if phase == _OVERHEAD or name == layout.OVERHEAD_ANNOTATION:
        phase, module = _OVERHEAD, None
    elif name.startswith(layout.MODULE_ANNOTATION):
        module = name.removeprefix(layout.MODULE_ANNOTATION)
    elif name.startswith(_BACKWARD):
        phase = "backward"
    elif name.startswith(_OPTIMIZER):
        phase = "optimizer"
    elif name.startswith(_LOADER):
        phase = "data"
    call.phase, call.module = phase, module
    for child in call.children:
        _assign_phase(child, phase, module)


def _walk(call: _Call) -> Iterator[_Call]:
    yield call
    for child in call.children:
        yield from _walk(child)


def _link_backward(calls: Sequence[_Call]) -> None:
    """Assign the module of the forward operator to the backward operators that it caused.

    Operators without gradients, such as those of a capture after a module, have the sequence number of the next
    operator with a gradient: the last operator with a number is the one that is differentiated.
    """
    modules: dict[int, str] = {}
    for call in calls:
        if call.sequence is not None and call.module is not None and call.phase not in ("backward", _OVERHEAD):
            modules[call.sequence] = call.module
    for call in calls:
        if call.phase == "backward" and call.module is None and call.sequence in modules:
            _assign_module(call, modules[call.sequence])


def _assign_module(call: _Call, module: str) -> None:
    call.module = module
    for child in call.children:
        if child.module is None:
            _assign_module(child, module)


def _row(call: _Call, device: str, base_ns: int, steps: TraceSteps) -> OperatorRow:
    start_ns = base_ns + round(call.start_us * 1000)
    step, mode = steps.at(start_ns)
    unmarked = "forward" if call.module is not None or steps.is_before_backward(start_ns) else "other"
    phase = call.phase or ("initialization" if mode == START else unmarked)
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


def _device_row(event: Mapping[str, Any], caller: _Call | None, base_ns: int, steps: TraceSteps) -> OperatorRow:
    """Return the row of a kernel, with step, phase and module of the operator that launched it."""
    length = float(event["dur"])
    call = _Call(event, float(event["ts"]), length, length)
    device = f"gpu{event.get('args', {}).get('device', 0)}"
    row = _row(call, device, base_ns, steps)
    if caller is None:
        row["phase"] = "other"
        return row
    origin = _row(caller, device, base_ns, steps)
    row["step"], row["mode"] = origin["step"], origin["mode"]
    row["phase"], row["module"] = origin["phase"], origin["module"]
    return row
