"""Conversion of packed step rows to timeline columns with one row for each phase."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leadline.records.names import MODES
from leadline.records.phases import HEAD, NESTED, ON_DEVICE, ROW, STEP, STEP_PHASES
from leadline.store.codec import int64_buffer

_WIDTH: Final = ROW.size // 8
_NO_ARGS: Final = "{}"


def phase_columns(rows: Sequence[bytes], offset_ns: int) -> tuple[int, dict[str, Any]]:
    """Return the columns of ``codec.TIMELINE`` for some steps: phase by phase, each with its steps in order.

    Args:
        rows: Steps packed as ``records.phases.ROW``.
        offset_ns: Wall clock minus ``time.perf_counter_ns``.
    Returns:
        The number of rows, and the columns.
    """
    flat = struct.unpack(f"<{_WIDTH * len(rows)}q", b"".join(rows))
    head = {name: flat[index::_WIDTH] for index, name in enumerate(HEAD)}
    modes = [MODES[index] for index in head["mode"]]
    parts = [(STEP, head["start_ns"], head["duration_ns"], list(range(len(rows))), _step_args(head))]
    for index, name in enumerate(STEP_PHASES):
        starts, durations, counts = (flat[len(HEAD) + 3 * index + at :: _WIDTH] for at in range(3))
        present = [at for at, count in enumerate(counts) if count]
        args = [_args(name, counts[at], head["nesting"][at]) for at in present]
        parts.append((name, starts, durations, present, args))
    names: list[str] = []
    columns: dict[str, list[Any]] = {name: [] for name in ("phase", "step", "start", "duration", "thread", "args")}
    for name, starts, durations, present, args in parts:
        names += [name] * len(present)
        columns["phase"] += [modes[at] for at in present]
        columns["step"] += [head["step"][at] for at in present]
        columns["start"] += [starts[at] + offset_ns for at in present]
        columns["duration"] += [durations[at] for at in present]
        columns["thread"] += [head["thread"][at] for at in present]
        columns["args"] += args
    return len(names), {
        "name": names,
        "phase": columns["phase"],
        "step": int64_buffer(columns["step"]),
        "start_ns": int64_buffer(columns["start"]),
        "duration_ns": int64_buffer(columns["duration"]),
        "thread": int64_buffer(columns["thread"]),
        "args": columns["args"],
    }


def _step_args(head: Mapping[str, Sequence[int]]) -> list[str]:
    return [
        f'{{"own_ns":{own}{f",{_every(every)}" if every > 1 else ""}{_CLOCK if nesting & ON_DEVICE else ""}}}'
        for own, every, nesting in zip(head["own_ns"], head["every"], head["nesting"], strict=True)
    ]


_CLOCK: Final = ',"clock":"device"'


def _every(every: int) -> str:
    return f'"every":{every}'


def _args(name: str, count: int, nesting: int) -> str:
    if count == 1 and not nesting:
        return _NO_ARGS
    entries = [f'"count":{count}'] if count > 1 else []
    entries += [f'"within":"{outer}"' for bit, (inner, outer) in NESTED.items() if nesting & bit and inner == name]
    return f"{{{','.join(entries)}}}"
