"""From packed rows, a step each, to the columns of a timeline, a row a phase."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leadline.records.names import MODES
from leadline.records.phases import EACH_STEP, HEAD, NESTED, ON_DEVICE, ROW, STEP
from leadline.store.codec import int64_buffer

_WIDTH: Final = ROW.size // 8
_NOTHING: Final = "{}"


def phase_columns(rows: Sequence[bytes], offset_ns: int) -> tuple[int, dict[str, Any]]:
    """The columns of ``codec.TIMELINE`` for some steps: phase by phase, the steps of each in order.

    Args:
        rows: As ``records.phases.ROW`` packs them.
        offset_ns: The wall clock less ``time.perf_counter_ns``.
    Returns:
        The number of rows, and the columns.
    """
    flat = struct.unpack(f"<{_WIDTH * len(rows)}q", b"".join(rows))
    head = {name: flat[index::_WIDTH] for index, name in enumerate(HEAD)}
    modes = [MODES[each] for each in head["mode"]]
    parts = [(STEP, head["start_ns"], head["duration_ns"], list(range(len(rows))), _step_args(head))]
    for index, name in enumerate(EACH_STEP):
        starts, durations, counts = (flat[len(HEAD) + 3 * index + at :: _WIDTH] for at in range(3))
        there = [at for at, count in enumerate(counts) if count]
        args = [_args(name, counts[at], head["nesting"][at]) for at in there]
        parts.append((name, starts, durations, there, args))
    names: list[str] = []
    columns: dict[str, list[Any]] = {each: [] for each in ("phase", "step", "start", "duration", "thread", "args")}
    for name, starts, durations, there, args in parts:
        names += [name] * len(there)
        columns["phase"] += [modes[at] for at in there]
        columns["step"] += [head["step"][at] for at in there]
        columns["start"] += [starts[at] + offset_ns for at in there]
        columns["duration"] += [durations[at] for at in there]
        columns["thread"] += [head["thread"][at] for at in there]
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
        return _NOTHING
    found = [f'"count":{count}'] if count > 1 else []
    found += [f'"within":"{outer}"' for bit, (inner, outer) in NESTED.items() if nesting & bit and inner == name]
    return f"{{{','.join(found)}}}"
