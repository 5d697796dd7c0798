"""Conversion of Horovod events to activities with start, duration and wall-clock time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.profiles.horovod import join_pairs, parse_events, read_horovod
from leadline.store import layout

NAMES = [
    {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "conv1.weight"}},
    {"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
    {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "conv1.bias"}},
]
EVENTS = [
    {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 5000, "pid": 1},
    {"ph": "X", "name": "0", "ts": 5100, "pid": 1, "dur": 0},
    {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 5150, "pid": 2},
    {"ph": "E", "ts": 5200, "pid": 1},
    {"ph": "B", "name": "ALLREDUCE", "ts": 5200, "pid": 1},
    {"ph": "B", "name": "NCCL_ALLREDUCE", "ts": 5250, "pid": 1},
    {"ph": "E", "ts": 5350, "pid": 1},
    {"ph": "E", "ts": 5400, "pid": 1, "args": {"dtype": "float", "shape": "[64]"}},
    {"ph": "E", "ts": 5500, "pid": 2},
    {"ph": "B", "name": "ALLREDUCE", "ts": 5600, "pid": 2},
]


def rows(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = sorted(join_pairs(events), key=lambda each: (each["start_us"], -each["length_us"]))
    return [(each["tensor"], each["activity"], each["depth"], each["start_us"], each["length_us"]) for each in found]


def test_begin_and_end_are_joined_and_open_activities_are_omitted() -> None:
    assert rows(NAMES + EVENTS) == [
        ("conv1.weight", "NEGOTIATE_ALLREDUCE", 0, 5000, 200),
        ("conv1.weight", "0", 1, 5100, 0),
        ("conv1.bias", "NEGOTIATE_ALLREDUCE", 0, 5150, 350),
        ("conv1.weight", "ALLREDUCE", 0, 5200, 200),
        ("conv1.weight", "NCCL_ALLREDUCE", 1, 5250, 100),
    ]


def test_args_of_end_events_are_kept() -> None:
    (found,) = [each for each in join_pairs(NAMES + EVENTS) if each["args"]]
    assert (found["activity"], found["args"]) == ("ALLREDUCE", {"dtype": "float", "shape": "[64]"})


def test_every_prefix_of_a_file_is_read_up_to_its_last_complete_event() -> None:
    text = "[\n" + "".join(json.dumps(each) + ",\n" for each in NAMES + EVENTS)
    data = text.encode()
    counts = [len(list(parse_events(data[:end].splitlines(keepends=True)))) for end in range(len(data) + 1)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, len(NAMES + EVENTS))
    closed = data[:-2] + b"]\n"
    assert len(list(parse_events(closed.splitlines(keepends=True)))) == len(NAMES + EVENTS)


@pytest.mark.parametrize("between", [b",", b"]"], ids=["the file", "a copy that has grown with it"])
def test_events_that_share_a_line_are_read(between: bytes) -> None:
    """Horovod 0.28 writes only the names of tensors on lines of their own, and ends the list after each event."""
    header = b"[\n" + b"".join(json.dumps(each).encode() + b",\n" for each in NAMES)
    data = header + between.join(json.dumps(each).encode() for each in EVENTS) + b"]"
    found = list(parse_events(data.splitlines(keepends=True)))
    assert found == NAMES + EVENTS
    counts = [len(list(parse_events(data[:end].splitlines(keepends=True)))) for end in range(len(data) + 1)]
    assert counts == sorted(counts)


def test_ticks_without_a_negotiation_are_read() -> None:
    """With a response cache Horovod writes when ranks are ready without a negotiation, and later than others began."""
    events: list[dict[str, Any]] = [
        {"ph": "i", "name": "CYCLE_START", "ts": 4000, "s": "g"},
        {"ph": "X", "name": "4", "ts": 5300, "pid": 1, "dur": 0},
        {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 5100, "pid": 2},
        {"ph": "E", "ts": 5000, "pid": 1},
        {"ph": "E", "ts": 5200, "pid": 2},
        {"ph": "X", "name": "7", "ts": 5400, "pid": 26, "dur": 0},
    ]
    assert rows(NAMES + events) == [
        ("", "CYCLE_START", 0, 4000, 0),
        ("conv1.bias", "NEGOTIATE_ALLREDUCE", 0, 5100, 100),
        ("conv1.weight", "4", 0, 5300, 0),
        ("", "7", 0, 5400, 0),
    ]


def stored(run: Path, events: list[dict[str, Any]], clock: dict[str, int]) -> Path:
    folder = run / layout.horovod("rank0-1")
    folder.mkdir(parents=True)
    (folder / layout.horovod_copy(1)).write_text("[\n" + "".join(json.dumps(each) + ",\n" for each in events))
    (folder / layout.horovod_clock(1)).write_text(json.dumps(clock))
    return run


@pytest.mark.parametrize(
    ("since_us", "clock", "epoch_us"),
    [
        (90_000_000, {"boot_ns": 10**18, "modified_ns": 10**18 + 90_010_000_000}, None),
        (0, {"boot_ns": 10**18, "modified_ns": 10**18 + 90_005_600_000}, None),
        (0, {"boot_ns": 0, "modified_ns": 0}, 10**15 + 90_000_000),
    ],
    ids=["since boot", "since file creation", "as recorded"],
)
def test_timestamps_are_converted_to_wall_clock_time(
    tmp_path: Path, since_us: int, clock: dict[str, int], epoch_us: int | None
) -> None:
    events = [{**each, "ts": each["ts"] + since_us} if "ts" in each else each for each in NAMES + EVENTS]
    if epoch_us is not None:
        started = {"start_time_since_epoch_in_micros": epoch_us}
        events = [{"name": "process_name", "ph": "M", "pid": 0, "args": started}, *events]
    found = read_horovod(str(stored(tmp_path, events, clock)))
    first = found.to_pylist()[0]
    assert (first["activity"], first["duration_ns"]) == ("NEGOTIATE_ALLREDUCE", 200_000)
    assert first["start_ns"] == 10**18 + 90_000_000_000 + 5_000_000


def test_a_run_without_horovod_has_no_rows(tmp_path: Path) -> None:
    assert len(read_horovod(str(tmp_path))) == 0
