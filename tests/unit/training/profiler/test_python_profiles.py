"""cProfile and pyinstrument in a window: tables equal to the profilers' own, one slice per phase and step."""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leadline.instrumentation.recording import ProfileUnavailableError, Recording
from leadline.records.profile_window import ProfileWindow, Timer
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.training.profiler.python_recording import open_callstacks, open_functions


def busy(seconds: float) -> None:
    """Keep the processor busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def recursive(depth: int) -> int:
    return 0 if depth == 0 else 1 + recursive(depth - 1)


def work() -> None:
    busy(0.02)
    time.sleep(0.05)
    recursive(4)


def open_window(timer: Timer = "total", **fields: Any) -> Recording:
    return open_functions(ProfileWindow("cprofile", timer, **fields))


def recorded(folder: Path, timer: Timer) -> pa.Table:
    recording = open_window(timer)
    recording.begin(0)
    work()
    assert list(recording.end(1, "train")(str(folder))) == [layout.FUNCTIONS, layout.CALLS]
    return table(folder / layout.FUNCTIONS)


def table(path: Path) -> pa.Table:
    with pa.ipc.open_stream(path) as reader:
        return reader.read_all()


def row(functions: pa.Table, name: str) -> dict[str, Any]:
    (one,) = [entry for entry in functions.to_pylist() if entry["function"].endswith(name)]
    return dict(one)


def seconds(functions: pa.Table, name: str, column: str) -> float:
    return float(row(functions, name)[column]) / 1e9


def key(entry: dict[str, Any]) -> tuple[str, int, str]:
    """As pstats has it, which knows no qualified names."""
    name = entry["function"].rpartition(".")[2] if entry["file"] else entry["function"]
    return entry["file"] or "~", entry["line"], name


def test_the_table_equals_that_of_cprofile_on_the_same_profile(tmp_path: Path) -> None:
    recording = open_window()
    recording.begin(0)
    work()
    profile = recording._running[3].profile  # type: ignore[attr-defined]
    recording.end(1, "train")(str(tmp_path))
    own = dict(pstats.Stats(profile).stats)  # type: ignore[attr-defined]
    functions = {key(entry): entry for entry in table(tmp_path / layout.FUNCTIONS).to_pylist()}
    for where, (primitive, calls, total, cumulative, _) in own.items():
        actual = functions[where]
        assert (actual["calls"], actual["primitive_calls"]) == (calls, primitive)
        assert actual["own_ns"] == pytest.approx(total * 1e9, abs=1)
        assert actual["cumulative_ns"] == pytest.approx(cumulative * 1e9, abs=1)
    assert len(functions) == len(own)


def test_recursion_counts_primitive_calls(tmp_path: Path) -> None:
    functions = row(recorded(tmp_path, "total"), "recursive")
    assert (functions["calls"], functions["primitive_calls"]) == (5, 1)


def test_off_cpu_time_of_a_sleeping_function_is_its_sleep(tmp_path: Path) -> None:
    folders = {}
    for timer in ("total", "cpu", "off_cpu"):
        (tmp_path / timer).mkdir()
        folders[timer] = recorded(tmp_path / timer, timer)  # type: ignore[arg-type]
    sleep = "<built-in method time.sleep>"
    assert seconds(folders["total"], sleep, "own_ns") >= 0.05
    assert seconds(folders["off_cpu"], sleep, "own_ns") >= 0.045
    assert seconds(folders["cpu"], sleep, "own_ns") < 0.02
    assert seconds(folders["cpu"], "busy", "cumulative_ns") >= 0.019


def test_calls_by_caller_and_callee(tmp_path: Path) -> None:
    recorded(tmp_path, "total")
    edges = {(entry["caller_function"], entry["function"]) for entry in table(tmp_path / layout.CALLS).to_pylist()}
    assert {("work", "busy"), ("work", "recursive"), ("recursive", "recursive")} <= edges


def test_each_phase_of_each_step_is_a_slice(tmp_path: Path) -> None:
    recording = open_window(steps=2)
    recording.begin(7)
    busy(0.001)
    recording.mark("backward")
    recursive(1)
    recording.mark("backward")  # a second micro-batch
    recording.mark("optimizer")
    busy(0.001)
    recording.enter(8, "train")
    recursive(2)
    recording.end(9, "eval")(str(tmp_path))
    functions = table(tmp_path / layout.FUNCTIONS)
    slices = {(entry["step"], entry["mode"], entry["phase"]) for entry in functions.to_pylist()}
    assert slices == {
        (7, "train", "forward"),
        (7, "train", "backward"),
        (7, "train", "optimizer"),
        (8, "eval", "forward"),
    }
    calls = {
        (entry["step"], entry["phase"]): entry["calls"]
        for entry in functions.to_pylist()
        if entry["function"] == "recursive"
    }
    assert calls == {(7, "backward"): 2, (8, "forward"): 3}


def test_the_process_start_is_one_slice_without_a_step(tmp_path: Path) -> None:
    recording = open_window(part="start")
    recording.begin(0)
    recording.mark("backward")
    busy(0.001)
    recording.end(0, "train")(str(tmp_path))
    functions = table(tmp_path / layout.FUNCTIONS).to_pylist()
    assert {(entry["step"], entry["mode"], entry["phase"]) for entry in functions} == {(-1, "", "start")}


def test_another_profiler_is_not_replaced(tmp_path: Path) -> None:
    other = cProfile.Profile()
    other.enable()
    try:
        with pytest.raises(ProfileUnavailableError, match="another Python profiler"):
            open_window().begin(0)
    finally:
        other.disable()
    assert sys.getprofile() is None


def test_recordings_leave_nothing(tmp_path: Path) -> None:
    recorded(tmp_path, "total")
    assert sys.getprofile() is None


def test_pyinstrument_keeps_the_whole_call_tree(tmp_path: Path) -> None:
    from pyinstrument.session import Session

    recording = open_callstacks(ProfileWindow("pyinstrument"))
    recording.begin(3)
    busy(0.05)
    recording.mark("backward")
    time.sleep(0.05)
    names = recording.end(4, "train")(str(tmp_path))
    assert names == [layout.callstacks(0), layout.callstacks(1)]
    first = read_document(str(tmp_path / names[0]))
    assert isinstance(first, dict)
    assert (first["step"], first["mode"], first["phase"]) == (3, "train", "forward")
    session = Session.from_json(first["session"])
    assert session.sample_count > 10
    frame = session.root_frame()
    while frame.children and frame.function != "busy":
        frame = max(frame.children, key=lambda child: child.time)
    assert frame.function == "busy"
    assert sys.getprofile() is None
