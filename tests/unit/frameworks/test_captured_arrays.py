"""Captured numpy arrays: statistics equal those of numpy, raw copies equal the arrays."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.config.capture import parse_capture
from leadline.frameworks import array_capture
from leadline.frameworks.array_capture import CapturedArrays, ColumnSet
from leadline.records.series import TensorInfo
from leadline.statistics.arrays import compute
from leadline.statistics.definitions import BASIC
from leadline.store.tensors import HostBuffer


def captured(*options: str, change_bytes: int = 1 << 20) -> tuple[CapturedArrays, list[str]]:
    notes: list[str] = []
    arrays = CapturedArrays(notes.append, change_bytes=change_bytes)
    arrays.begin([parse_capture(option) for option in options], "train")
    return arrays, notes


def row(arrays: CapturedArrays) -> dict[tuple[str, str], float]:
    captured_row = arrays.row()
    assert captured_row is not None
    layout, values = captured_row
    numbers = np.frombuffer(values)
    return {(layout.tensors[at].name, name): numbers[i] for i, (at, name) in enumerate(layout.columns)}


def raw(arrays: CapturedArrays) -> dict[str, np.ndarray]:
    form = arrays.raw_form()
    assert form is not None
    buffer = HostBuffer(form)
    assert arrays.fill(buffer) is None
    kinds = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "BOOL": np.bool_}
    data = bytes(buffer.memory[form.header_bytes :])
    return {
        slot.name: np.frombuffer(data[slot.offset : slot.offset + slot.bytes], kinds[slot.dtype]).reshape(slot.shape)
        for slot in form.slots
    }


def test_statistics_are_those_of_the_numpy_form() -> None:
    arrays, notes = captured("weights:every=1")
    values = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    arrays.keep("w", ("weights",), values)
    assert row(arrays) == {("w", name): pytest.approx(compute(name, values)) for name in BASIC}
    assert notes == []


def test_arrays_that_no_item_selects_are_not_captured() -> None:
    arrays, _ = captured("gradients:every=1")
    arrays.keep("w", ("weights",), np.ones(3))
    assert arrays.is_empty
    assert arrays.row() is None
    assert arrays.raw_form() is None


def test_an_array_is_read_at_once() -> None:
    arrays, _ = captured("weights:every=1,raw=true,statistics=sum")
    values = np.ones(3)
    arrays.keep("w", ("weights",), values)
    values *= 7
    assert row(arrays) == {("w", "sum"): 3.0}
    np.testing.assert_array_equal(raw(arrays)["w"], np.ones(3))


def test_raw_copies_of_all_types_are_aligned_and_complete() -> None:
    arrays, _ = captured("weights:every=1,raw=true")
    given = {
        "flags": np.array([True, False]),
        "wide": np.arange(5, dtype=np.int64),
        "half": np.ones((2, 3), np.float32),
        "crossed": np.arange(6.0).reshape(2, 3).T,
        "one": np.array(2.5),
    }
    for name, array in given.items():
        arrays.keep(name, ("weights",), array)
    copies = raw(arrays)
    assert copies.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(copies[name], array)
    assert set(dict.fromkeys(name for name, _ in row(arrays))) == given.keys()  # the row carries their collections


def test_types_without_a_safetensors_equivalent_are_noted() -> None:
    arrays, notes = captured("weights:every=1,raw=true,statistics=max")
    arrays.keep("w", ("weights",), np.ones(2, np.complex128))
    assert arrays.raw_form() is None
    assert notes == ["w is not stored: safetensors has no type complex128"]


def test_change_statistics_compare_with_the_previous_capture() -> None:
    arrays, _ = captured("weights:every=1,statistics=change_l2")
    items = [parse_capture("weights:every=1,statistics=change_l2")]
    arrays.keep("w", ("weights",), np.zeros(4))
    assert np.isnan(row(arrays)["w", "change_l2"])
    arrays.begin(items, "train")
    arrays.keep("w", ("weights",), np.full(4, 3.0))
    assert row(arrays)["w", "change_l2"] == 6.0


def test_beyond_the_memory_limit_changes_are_nan_and_noted() -> None:
    arrays, notes = captured("weights:every=1,statistics=change_l2", change_bytes=16)
    for _ in range(2):
        arrays.keep("w", ("weights",), np.zeros(4))
        assert np.isnan(row(arrays)["w", "change_l2"])
    assert notes[0] == "changes of w are not computed: a copy of it takes 32 bytes"


def test_vector_statistics_are_stored_as_raw_arrays() -> None:
    arrays, _ = captured("labels:every=1,statistics=class_counts,mean")
    arrays.keep("labels", ("labels",), np.array([0, 2, 2]))
    np.testing.assert_array_equal(raw(arrays)["labels@class_counts"], [1, 0, 2])


def test_an_array_of_which_only_vectors_are_captured_keeps_its_collections() -> None:
    arrays, _ = captured("labels:every=1,statistics=class_counts")
    arrays.keep("labels", ("labels",), np.array([0, 2, 2]))
    layout, _ = arrays.row() or (None, b"")
    assert layout is not None
    assert layout.tensors == (TensorInfo("labels", ("labels",), (3,), "int64"),)


def test_computed_numbers_are_part_of_the_row() -> None:
    arrays, _ = captured()
    block = ColumnSet((TensorInfo("a", ("x",)), TensorInfo("b", ("x",))), ((1, "value"), (0, "value")))
    arrays.keep_numbers(block, np.array([1.0, 2.0]))
    assert row(arrays) == {("b", "value"): 1.0, ("a", "value"): 2.0}


def test_statistics_of_constant_arrays_are_reused_except_changes() -> None:
    arrays, _ = captured("labels:every=1,statistics=mean,change_l2")
    labels = np.arange(4.0)
    rows = []
    for _ in range(2):
        arrays.begin([parse_capture("labels:every=1,statistics=mean,change_l2")], "train")
        arrays.keep("labels", ("labels",), labels, is_constant=True)
        rows.append(row(arrays))
    assert rows[1] == {("labels", "mean"): 1.5, ("labels", "change_l2"): 0.0}
    arrays.begin([parse_capture("labels:every=1,statistics=mean")], "train")
    arrays.keep("labels", ("labels",), labels, is_constant=True)
    before = row(arrays)
    arrays.begin([parse_capture("labels:every=1,statistics=mean")], "train")
    arrays.keep("labels", ("labels",), labels + 1, is_constant=True)
    assert (before, row(arrays)) == ({("labels", "mean"): 1.5}, {("labels", "mean"): 2.5})


def test_shapes_that_never_recur_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_capture, "_MAX_BLOCKS", 8)
    arrays, notes = captured("weights:every=1")
    for length in range(1, 40):
        arrays.keep("w", ("weights",), np.ones(length))
        assert row(arrays)["w", "max"] == 1.0
    assert len(arrays._known_blocks) <= 9
    assert notes == []
