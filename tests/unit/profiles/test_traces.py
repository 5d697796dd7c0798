"""Slices of a trace: modules, operators within them, and kernels with a track for each stream."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from leadline.errors import DamagedRunError
from leadline.profiles.queries import read_calls
from leadline.profiles.traces import read_slices
from leadline.store import layout

BASE_NS = 1_795_000_000_000_000_000


def event(category: str, name: str, ts: float, dur: float, tid: int = 7, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": args}


EVENTS = [
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "args": {"name": "python"}},
    event("user_annotation", "leadline.module/conv1", 10.0, 100.0),
    event("cpu_op", "aten::conv2d", 20.0, 80.0, **{"External id": 1, "Sequence number": 5}),
    event("cpu_op", "aten::cudnn_convolution", 30.0, 60.0, **{"External id": 2}),
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": 7, "ts": 31.0, "args": {"Bytes": 64}},
    event(
        "cpu_op",
        "autograd::engine::evaluate_function: ConvolutionBackward0",
        200.0,
        50.0,
        tid=8,
        **{"External id": 3, "Sequence number": 5},
    ),
    event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 300.0, 40.0),
    event("cpu_op", "aten::stack", 310.0, 20.0, **{"External id": 4}),
    event("kernel", "implicit_gemm", 150.0, 300.0, tid=20, device=0, stream=20, **{"External id": 2}),
    event("gpu_memcpy", "Memcpy HtoD", 155.0, 3.0, tid=21, device=0, stream=21, **{"External id": 99}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with gzip.open(tmp_path / layout.TRACE, "wt") as file:
        json.dump({"baseTimeNanoseconds": BASE_NS, "profile_memory": 1, "traceEvents": EVENTS}, file)
    steps = [
        {"step": 3, "mode": "train", "start_ns": BASE_NS, "end_ns": BASE_NS + 120_000, "marks": {}},
        {"step": 4, "mode": "train", "start_ns": BASE_NS + 120_000, "end_ns": BASE_NS + 400_000, "marks": {}},
    ]
    (tmp_path / layout.TRACE_STEPS).write_text(json.dumps({"steps": steps}))
    return tmp_path


def test_every_track_has_its_slices_in_order(folder: Path) -> None:
    found = [(each.track, each.kind, each.name, each.start_ns - BASE_NS) for each in read_slices(str(folder))]
    assert found == [
        ("gpu0 stream 20", "device", "implicit_gemm", 150_000),
        ("gpu0 stream 21", "device", "Memcpy HtoD", 155_000),
        ("thread 7", "module", "conv1", 10_000),
        ("thread 7", "operator", "aten::conv2d", 20_000),
        ("thread 7", "operator", "aten::cudnn_convolution", 30_000),
        ("thread 7", "annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 300_000),
        ("thread 7", "operator", "aten::stack", 310_000),
        ("thread 8", "operator", "autograd::engine::evaluate_function: ConvolutionBackward0", 200_000),
    ]


def test_a_kernel_has_the_step_and_module_of_its_operator(folder: Path) -> None:
    by_name = {each.name: each for each in read_slices(str(folder))}
    kernel, copy = by_name["implicit_gemm"], by_name["Memcpy HtoD"]
    assert (kernel.step, kernel.phase, kernel.module) == (3, "forward", "conv1")
    assert (copy.step, copy.phase, copy.module) == (4, "other", "")
    backward = by_name["autograd::engine::evaluate_function: ConvolutionBackward0"]
    assert (backward.step, backward.phase, backward.module) == (4, "backward", "conv1")


def test_operators_of_the_data_loader_belong_to_its_phase(folder: Path) -> None:
    by_name = {each.name: each for each in read_slices(str(folder))}
    assert by_name["aten::stack"].phase == "data"


def test_slices_are_the_calls_and_their_context(folder: Path) -> None:
    calls = read_calls(str(folder), "rank0-1", "w").to_pylist()
    slices = [each for each in read_slices(str(folder)) if each.kind in ("operator", "device")]
    assert sorted((each["start_ns"], each["total_ns"], each["operator"], each["module"]) for each in calls) == sorted(
        (each.start_ns, each.duration_ns, each.name, each.module) for each in slices
    )


def test_a_truncated_trace_is_an_error(folder: Path) -> None:
    data = (folder / layout.TRACE).read_bytes()
    (folder / layout.TRACE).write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedRunError, match=r"trace\.json\.gz cannot be read"):
        read_slices(str(folder))
