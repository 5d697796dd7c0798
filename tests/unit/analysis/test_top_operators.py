"""Top operators: shares and labels."""

from __future__ import annotations

import pyarrow as pa
import pytest

from leadline.analysis.operators import label_of, seconds_by, seconds_by_kind, top_operators


def operators(*rows: tuple[str, str, str, str, int]) -> pa.Table:
    names = ("phase", "operator", "module", "device", "own_ns")
    return pa.Table.from_pylist([{**dict(zip(names, row, strict=True)), "calls": 1} for row in rows])


MIXED = operators(
    ("forward", "aten::conv2d", "layer1.0", "cpu", 30),
    ("backward", "aten::batch_norm", "layer1.0", "cpu", 50),
    ("forward", "conv_kernel", "layer1.0", "gpu0", 100),
    ("other", "aten::add", "", "gpu1", 20),
)


def test_the_most_expensive_operators_are_first_with_shares() -> None:
    rows = top_operators(MIXED)
    assert [row["own_ns"] for row in rows] == [100, 50, 30, 20]
    assert [row["share"] for row in rows] == pytest.approx([0.5, 0.25, 0.15, 0.1])
    assert [row["cumulative_share"] for row in rows] == pytest.approx([0.5, 0.75, 0.9, 1.0])


def test_shares_refer_to_the_selected_device() -> None:
    assert [row["share"] for row in top_operators(MIXED, device="cpu")] == pytest.approx([50 / 80, 30 / 80])
    assert [row["own_ns"] for row in top_operators(MIXED, device="gpu")] == [100, 20]
    assert [row["own_ns"] for row in top_operators(MIXED, device="gpu1")] == [20]
    assert top_operators(MIXED, device="tpu") == []


def test_shares_include_omitted_operators() -> None:
    (row,) = top_operators(MIXED, limit=1)
    assert row["share"] == 0.5


def test_operators_without_time_have_no_share() -> None:
    assert [row["share"] for row in top_operators(operators(("forward", "x", "", "cpu", 0)))] == [0.0]


@pytest.mark.parametrize(
    ("row", "label"),
    [
        ({"operator": "aten::batch_norm", "phase": "backward", "module": "fc"}, "batch_norm, backward of fc"),
        ({"operator": "aten::add", "phase": "optimizer", "module": ""}, "add, optimizer"),
        ({"operator": "aten::add", "phase": "other", "module": "fc"}, "add in fc"),
        ({"operator": "aten::add"}, "add"),
        ({"phase": "forward"}, "operators, forward"),
    ],
)
def test_labels(row: dict[str, str], label: str) -> None:
    assert label_of(row) == label


def test_time_by_column_and_by_kind_of_device() -> None:
    assert seconds_by(MIXED, "phase") == pytest.approx({"forward": 130e-9, "backward": 50e-9, "other": 20e-9})
    assert seconds_by_kind(MIXED) == pytest.approx({"GPU operators": 120e-9, "CPU operators": 80e-9})
