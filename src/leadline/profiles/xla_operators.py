"""Operators in the XSpace of a profile window: every call with its step, phase and layer."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.errors import DamagedRunError
from leadline.profiles.rows import OperatorRow
from leadline.profiles.trace_steps import TraceSlice, TraceSteps, read_steps
from leadline.profiles.xla_profile import Space, SpaceEvent, SpaceLine, parse_space
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.run_files import read_regular

_OPERATOR: Final = re.compile(r"(?:([^\s:]*)/)?[^\s:/]+:(\w+)")
"""The name of an operator of TensorFlow: ``gradient_tape/sequential/dense/MatMul:MatMul``."""
_MAX_BYTES: Final = 256 << 20
"""The largest XSpace that is read."""
_EAGER: Final = "EagerLocalExecute: "
_INPUT: Final = {"IteratorGetNextOp::DoCompute": "IteratorGetNext", "IteratorGetNextSync": "IteratorGetNext"}
"""Operators whose events have other names: they wait for the next batch of ``tf.data``."""
_BACKWARD: Final = frozenset({"gradient_tape", "gradients", "transpose(jvp"})
_DEVICE_LINES: Final = ("Stream", "XLA Ops")
"""The beginnings of the names of a device's lines whose events are kernels; those of others enclose them."""
_OVERHEAD: Final = "overhead"
_NUMBER: Final = re.compile(r"[._]\d+$")


@dataclass(slots=True)
class _Call:
    """A call of an operator, or an annotation of Leadline."""

    event: SpaceEvent
    line: SpaceLine
    operator: str
    scope: str
    """The names of the layers around it, separated by slashes."""
    own_ns: int

    @property
    def end_ns(self) -> int:
        return self.event.start_ns + self.event.duration_ns


def has_space(folder: str) -> bool:
    """Return whether the trace of a window is an XSpace."""
    return os.path.exists(os.path.join(folder, layout.SPACE))


def read_space_rows(folder: str) -> Iterator[OperatorRow]:
    """Yield the operator calls of a window; see ``leadline.profiles.traces.read_rows``.

    Raises:
        DamagedRunError: The XSpace cannot be read.
    """
    yield from (row for _, row in _rows(folder) if row["phase"] != _OVERHEAD)


def read_space_slices(folder: str) -> list[TraceSlice]:
    """Return all slices of a window; see ``leadline.profiles.traces.read_slices``.

    Raises:
        DamagedRunError: The XSpace cannot be read.
    """
    slices = []
    for call, row in _rows(folder):
        kind, track = "operator", f"thread {call.line.name.partition('/')[0]} {row['thread']}"
        if row["device"] != "cpu":
            kind, track = "device", f"{row['device']} {call.line.name}"
        fields = {key: row[key] for key in ("step", "mode", "phase", "module")}
        slices.append(TraceSlice(kind, row["operator"], track, row["start_ns"], row["total_ns"], **fields))  # type: ignore[arg-type]
    return sorted(slices, key=lambda item: (item.track, item.start_ns, -item.duration_ns))


def _rows(folder: str) -> Iterator[tuple[_Call, OperatorRow]]:
    path = os.path.join(folder, layout.SPACE)
    try:
        space = parse_space(read_regular(path, _MAX_BYTES))
    except (OSError, ValueError) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from None
    names = read_document(os.path.join(folder, layout.TRACE_STEPS)) or {}
    layers, optimizers = _Layers(names.get("layers", ())), frozenset(names.get("optimizers", ()))
    steps, overhead = TraceSteps(read_steps(folder)), _Overhead(space)
    for line in space.lines:
        device = _device(line)
        for call in _calls(line, space) if device else ():
            event, parts = call.event, call.scope.split("/")
            step, mode = steps.at(event.start_ns)
            module = layers.find(call.scope)
            yield (
                call,
                {
                    "step": step,
                    "mode": mode,
                    "phase": _OVERHEAD if overhead.covers(event) else _phase(call, parts, module, optimizers),
                    "operator": call.operator,
                    "module": module,
                    "device": device,
                    "start_ns": event.start_ns,
                    "total_ns": event.duration_ns,
                    "own_ns": call.own_ns,
                    "thread": line.id & 0x7FFFFFFF,
                    "memory_bytes": None,
                },
            )


def _calls(line: SpaceLine, space: Space) -> list[_Call]:
    """Return the operators of a line with their self times."""
    calls: list[_Call] = []
    stack: list[_Call] = []
    for event in sorted(line.events, key=lambda event: (event.start_ns, -event.duration_ns)):
        found = _operator(event, line, space)
        if found is None:
            continue
        call = _Call(event, line, *found, event.duration_ns)
        while stack and stack[-1].end_ns <= event.start_ns:
            stack.pop()
        if stack:
            stack[-1].own_ns = max(0, stack[-1].own_ns - event.duration_ns)
        stack.append(call)
        calls.append(call)
    return calls


def _operator(event: SpaceEvent, line: SpaceLine, space: Space) -> tuple[str, str] | None:
    """Return the operator of an event with its scope; None if the event is no operator."""
    if "hlo_op" in event.stats:
        instruction = str(event.stats["hlo_op"])
        name = space.operator_names.get((str(event.stats.get("hlo_module", "")), instruction), "")
        return _NUMBER.sub("", instruction), name.rpartition("/")[0]
    if event.name.startswith(_EAGER):
        name = event.name.removeprefix(_EAGER)
        is_counted = name.startswith("__") or name in _INPUT.values()  # a function, or the input, whose events follow
        return None if is_counted else (name, "")
    if event.name in _INPUT:
        return _INPUT[event.name], ""
    name = str(event.stats.get("tf_op", "")) if line.plane.startswith("/device:") else event.name
    match = _OPERATOR.fullmatch(name)
    if line.plane.startswith("/device:"):
        return event.name, (match[1] or "") if match else ""
    return (match[2].removeprefix("_Mkl"), match[1] or "") if match else None


def _device(line: SpaceLine) -> str:
    """Return the device of a line; empty: its events enclose those of other lines."""
    if not line.plane.startswith("/device:"):
        return "cpu"
    _, kind, number = f"{line.plane}:0".split(":")[:3]
    return f"{kind.lower()}{number.split(' ')[0]}" if line.name.startswith(_DEVICE_LINES) else ""


def _phase(call: _Call, parts: Sequence[str], module: str, optimizers: frozenset[str]) -> str:
    if call.operator == "IteratorGetNext":
        return "data"
    if any(part in _BACKWARD or part.startswith("transpose(") for part in parts):
        return "backward"
    if any(part in optimizers or _NUMBER.sub("", part) in optimizers for part in parts):
        return "optimizer"
    return "forward" if module else "other"


class _Layers:
    """Finds the layer of an operator by its scope."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = sorted((path.split("/") for path in paths), key=len, reverse=True)
        self._found: dict[str, str] = {}

    def find(self, scope: str) -> str:
        """Return the path of the innermost layer of a scope; empty if there is none."""
        if scope not in self._found:
            parts = scope.split("/")
            inner = (path for path in self._paths if _contains(parts, path))
            self._found[scope] = "/".join(next(inner, ()))
        return self._found[scope]


def _contains(parts: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether a path is a part of a scope.

    TensorFlow appends a number to a name that it enters once more: ``model_1/dense_1`` may be ``model/dense``.
    """
    return any(
        all(name in (part, _NUMBER.sub("", part)) for name, part in zip(path, parts[begin:], strict=False))
        for begin in range(len(parts) - len(path) + 1)
    )


class _Overhead:
    """The times of Leadline's own computations, for which the training waits."""

    def __init__(self, space: Space) -> None:
        events = (event for line in space.lines for event in line.events if event.name == layout.OVERHEAD_ANNOTATION)
        self._spans = sorted((event.start_ns, event.start_ns + event.duration_ns) for event in events)

    def covers(self, event: SpaceEvent) -> bool:
        """Return whether an event began within one of them."""
        index = bisect_right(self._spans, (event.start_ns, 2**63)) - 1
        return index >= 0 and event.start_ns < self._spans[index][1]
