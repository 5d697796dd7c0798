"""Conversion of packed steps to timeline rows."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from leadline.reader.run import Run
from leadline.records.phases import ROW
from leadline.store import codec
from leadline.store.codec import phase_columns
from leadline.testing.runs import RunWriter

Phase = tuple[int, int, int] | tuple[int, int, int, int]
"""Start, duration, number, and ready time."""
NOTHING = (0, 0, 0)


def row(
    step: int,
    *,
    mode: int = 0,
    start: int = 100,
    duration: int = 50,
    own: int = 3,
    every: int = 1,
    nesting: int = 0,
    mode_step: int = -1,
    thread: tuple[int, int] = (-1, -1),
    data: Phase = NOTHING,
    host: Phase = NOTHING,
    forward: Phase = NOTHING,
    backward: Phase = NOTHING,
    optimizer: Phase = NOTHING,
) -> bytes:
    phases = [(*phase, 0)[:4] for phase in (data, host, forward, backward, optimizer)]
    return ROW.pack(
        *(step, mode, start, duration, own, every, 77, nesting, *thread, mode_step),
        *(value for phase in phases for value in phase),
    )


def table(*rows: bytes, offset: int = 0) -> list[tuple[object, ...]]:
    """Return name, phase, step, start, duration, thread and args of each row."""
    count, columns = phase_columns(rows, offset)
    numbers = {
        name: struct.unpack(f"<{count}q", columns[name]) for name in ("step", "start_ns", "duration_ns", "thread")
    }
    args = [json.loads(text) for text in columns["args"]]
    return list(
        zip(
            columns["name"],
            columns["phase"],
            numbers["step"],
            numbers["start_ns"],
            numbers["duration_ns"],
            numbers["thread"],
            args,
            strict=True,
        )
    )


def test_only_phases_that_occurred_have_rows() -> None:
    rows = table(row(4, data=(100, 9, 1), optimizer=(140, 5, 1)), row(5, forward=(160, 8, 1)), offset=1_000)
    assert rows == [
        ("step", "train", 4, 1_100, 50, 77, {"own_ns": 3}),
        ("step", "train", 5, 1_100, 50, 77, {"own_ns": 3}),
        ("data", "train", 4, 1_100, 9, 77, {}),
        ("forward", "train", 5, 1_160, 8, 77, {}),
        ("optimizer", "train", 4, 1_140, 5, 77, {}),
    ]


def test_the_args_of_a_row() -> None:
    (step, forward, backward, optimizer) = table(
        row(1, mode=1, every=8, nesting=2 | 4 | 16, forward=(1, 1, 3), backward=(2, 2, 3), optimizer=(3, 3, 1))
    )
    assert step[1] == "eval"
    assert step[6] == {"own_ns": 3, "every": 8, "clock": "device"}
    assert forward[6] == backward[6] == {"count": 3, "within": "optimizer"}
    assert optimizer[6] == {}
    assert table(row(1, nesting=8, optimizer=(1, 1, 2)))[1][6] == {"count": 2, "within": "backward"}


def test_processor_times_are_args_of_the_step() -> None:
    step, *_ = table(row(1, nesting=32, host=(1, 9, 1, 4), forward=(10, 9, 1, 0)))
    assert step[6] == {"own_ns": 3, "host_cpu_ns": 4, "forward_cpu_ns": 0}
    assert table(row(1, host=(1, 9, 1, 4)))[0][6] == {"own_ns": 3}
    unknown, *_ = table(row(1, nesting=32, thread=(70, -1), host=(1, 9, 1, 4)))
    assert unknown[6] == {"own_ns": 3, "host_cpu_ns": 4}


def test_ready_times_are_args_of_the_step_where_the_run_delay_is_known() -> None:
    totals = {"own_ns": 3, "ready_ns": 70, "run_delay_ns": 0}
    step, *_ = table(row(1, nesting=32, thread=(70, 0), host=(1, 9, 1, 4)))
    assert step[6] == totals | {"host_ready_ns": 4}
    assert table(row(1, thread=(70, 0), host=(1, 9, 1, 4)))[0][6] == totals


def test_a_phase_of_zero_duration_has_a_row() -> None:
    assert [columns[0] for columns in table(row(0, forward=(100, 0, 1)))] == ["step", "forward"]


def test_every_column_is_one_of_the_timeline(tmp_path: Path) -> None:
    _, columns = phase_columns([row(0)], 0)
    assert tuple(columns) == tuple(name for name, _ in codec.TIMELINE.columns)
    assert Run(RunWriter(tmp_path / "run").end().path).timeline().num_rows == 0
