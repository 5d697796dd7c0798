"""XSpace files, encoded here by the rules of protobuf."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.errors import DamagedRunError
from leadline.profiles.traces import read_rows, read_slices
from leadline.profiles.xla_profile import parse_space
from leadline.store import layout

BEGUN_NS = 1_795_000_000_000_000_000
"""When the profile began, since the epoch."""


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def names(number: int, known: dict[int, str]) -> bytes:
    return b"".join(
        field(number, field(1, key) + field(2, field(1, key) + field(2, name))) for key, name in known.items()
    )


def event(name: int, start_us: int, length_us: int, *stats: bytes) -> bytes:
    head = field(1, name) + field(2, start_us * 10**6) + field(3, length_us * 10**6)
    return field(4, head + b"".join(field(4, stat) for stat in stats))


def line(number: int, name: str, *events: bytes) -> bytes:
    return field(3, field(1, number) + field(2, name) + field(3, 0) + b"".join(events))


def plane(name: str, *parts: bytes) -> bytes:
    return field(1, field(2, name) + b"".join(parts))


def space() -> bytes:
    """A step with two operators of layers on the CPU, the update, the input and an annotation; a kernel on a GPU."""
    known = {
        1: "function/sequential_1/dense_1/MatMul:_MklMatMul",
        2: "gradient_tape/sequential_1/dense_1/MatMul_1:MatMul",
        3: "adam/Sub:Sub",
        4: "IteratorGetNextOp::DoCompute",
        5: "ThreadpoolListener::Record",
        6: layout.OVERHEAD_ANNOTATION,
        7: "EagerLocalExecute: Relu",
        8: "EagerLocalExecute: __inference_train_17",
        9: "function/outer:PartitionedCall",
    }
    host = line(
        -7,
        "tf_Compute/7",
        event(9, 0, 100),
        event(1, 10, 30),
        event(2, 50, 20),
        event(3, 120, 5),
        event(4, 130, 10),
        event(5, 150, 10),
        event(7, 170, 4),
        event(8, 180, 4),
        event(1, 510, 10),
    )
    overhead = line(8, "python", event(6, 500, 100))
    kernel = line(3, "Stream #14", event(1, 20, 9, field(1, 1) + field(5, "sequential_1/dense_1/MatMul:MatMul")))
    enclosing = line(4, "Steps", event(2, 0, 900))
    environment = field(6, field(1, 1) + field(3, BEGUN_NS))
    return (
        plane("/host:CPU", names(4, known), host, overhead)
        + plane("/device:GPU:1", kernel, enclosing, names(4, {1: "gemm", 2: "step"}), names(5, {1: "tf_op"}))
        + plane("Task Environment", names(5, {1: "profile_start_time"}), environment)
    )


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / layout.SPACE).write_bytes(space())
    step = {"step": 5, "mode": "train", "start_ns": BEGUN_NS, "end_ns": BEGUN_NS + 10**6, "marks": {}}
    document = {"steps": [step], "layers": ["sequential/dense_1", "sequential"], "optimizers": ["adam"]}
    (tmp_path / layout.TRACE_STEPS).write_text(json.dumps(document))
    return str(tmp_path)


def test_operators_have_their_phase_and_layer(folder: str) -> None:
    rows = [(row["operator"], row["phase"], row["module"], row["device"], row["own_ns"]) for row in read_rows(folder)]
    assert sorted(rows) == sorted(
        [
            ("PartitionedCall", "other", "", "cpu", 50_000),
            ("MatMul", "forward", "sequential/dense_1", "cpu", 30_000),
            ("MatMul", "backward", "sequential/dense_1", "cpu", 20_000),
            ("Sub", "optimizer", "", "cpu", 5_000),
            ("IteratorGetNext", "data", "", "cpu", 10_000),
            ("Relu", "other", "", "cpu", 4_000),
            ("gemm", "forward", "sequential/dense_1", "gpu1", 9_000),
        ]
    )


def test_times_are_those_since_the_epoch(folder: str) -> None:
    (kernel,) = (row for row in read_rows(folder) if row["device"] == "gpu1")
    assert (kernel["start_ns"], kernel["total_ns"], kernel["step"]) == (BEGUN_NS + 20_000, 9_000, 5)


def test_computations_of_leadline_are_slices_but_no_operators(folder: str) -> None:
    assert [slice_.name for slice_ in read_slices(folder) if slice_.phase == "overhead"] == ["MatMul"]
    assert len(list(read_rows(folder))) == len(read_slices(folder)) - 1


def test_operators_that_xla_compiled_have_their_layer(folder: str) -> None:
    program = field(
        1, field(1, "train") + field(3, field(2, field(1, "dot.3") + field(7, field(2, "jvp/dense_1/dot"))))
    )
    metadata = field(4, field(1, 1) + field(2, field(1, 1) + field(2, "train") + field(5, field(6, program))))
    operator = event(1, 0, 8, field(1, 1) + field(7, 2), field(1, 3) + field(7, 4))
    known = names(5, {1: "hlo_op", 2: "dot.3", 3: "hlo_module", 4: "train"})
    host = plane("/host:CPU", line(1, "worker", operator), names(4, {1: "dot.3"}), known)
    Path(folder, layout.SPACE).write_bytes(plane("/host:metadata", metadata) + host)
    Path(folder, layout.TRACE_STEPS).write_text(json.dumps({"steps": [], "layers": ["dense_1"]}))
    (row,) = read_rows(folder)
    assert (row["operator"], row["module"], row["phase"]) == ("dot", "dense_1", "forward")


def test_a_damaged_file_is_named(folder: str) -> None:
    whole = space()
    for size in range(len(whole)):
        try:
            parse_space(whole[:size])
        except ValueError:
            continue
    Path(folder, layout.SPACE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedRunError, match=r"trace.xplane.pb cannot be read"):
        list(read_rows(folder))
