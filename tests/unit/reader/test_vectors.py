"""Array statistics in windows and in the reader."""

from __future__ import annotations

import numpy as np
import pytest

import leadline
from leadline.errors import NotCapturedError, UnknownNameError
from leadline.reader.feed import Feed
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import View
from leadline.records.needs import Needs, TensorNeed
from leadline.records.series import TensorInfo
from leadline.statistics import arrays
from leadline.testing.runs import START_NS, ArrayStatistics, Capture, RawTensors, RunWriter
from leadline.testing.windows import points


def raw(step: int, **tensors: np.ndarray) -> RawTensors:
    return RawTensors(step, {name: ("F64", each.shape, each.astype("<f8").tobytes()) for name, each in tensors.items()})


def test_a_window_returns_vectors_by_worker_and_tensor() -> None:
    view = View(Needs.of("relu_output", "unit_activity").tensors)
    parts = [
        ArrayStatistics(3, {"b.10.relu_output_0": {"unit_activity": [0.5]}}, worker="rank1-2", mode_step=2),
        ArrayStatistics(
            3,
            {
                "b.10.relu_output_0": {"unit_activity": [0.0, 1.0], "unit_mean": [7.0]},
                "b.9.relu_output_0": {"unit_activity": [1.0]},
                "b.tanh_output_0": {"unit_activity": [1.0]},
            },
            mode_step=2,
        ),
    ]
    (point,) = points(parts, shapes={})
    window = view.select(point)
    assert window is not None
    found = window.vectors("unit_activity")
    assert [(each.worker, each.tensor, each.values.tolist()) for each in found] == [
        ("rank0-1", "b.9.relu_output_0", [1.0]),
        ("rank0-1", "b.10.relu_output_0", [0.0, 1.0]),
        ("rank1-2", "b.10.relu_output_0", [0.5]),
    ]
    assert {(each.mode, each.mode_step, each.step, each.collections) for each in found} == {
        ("train", 2, 3, ("layers", "relu_output"))
    }
    assert window.vectors("unit_mean") == []
    assert window.arrays() == []
    assert view.tensor_names() == {"b.9.relu_output_0", "b.10.relu_output_0"}


def test_only_steps_with_needed_vectors_have_a_window() -> None:
    view = View(Needs.of("relu_output", "unit_activity").tensors)
    parts = [
        ArrayStatistics(0, {"relu_output_0": {"unit_mean": [1.0]}}),
        ArrayStatistics(1, {"relu_output_0": {"unit_activity": [1]}}),
    ]
    assert [view.select(point) is not None for point in points(parts, shapes={})] == [False, True]


def test_a_window_computes_vectors_from_raw_tensors() -> None:
    values = np.array([[1.0, -1.0], [2.0, -2.0]])
    view = View([TensorNeed(regex="^act$", statistics=("unit_activity",))])
    infos = {"act": TensorInfo("act", ("mine",), (2, 2))}
    (point,) = points([raw(0, act=values, other=values), Capture(0, {"act": {"l2": 1.0}}, infos=infos)], shapes={})
    window = view.select(point)
    assert window is not None
    (found,) = window.vectors("unit_activity")
    assert (found.tensor, found.shape, found.collections) == ("act", (2, 2), ("mine",))
    assert found.values.tolist() == [1.0, 0.0]


def test_class_counts_end_with_the_highest_class_that_occurs() -> None:
    view = View(Needs.of("labels", "class_counts").tensors)
    infos = {"labels_0": TensorInfo("labels_0", ("labels",), (3,))}
    part = ArrayStatistics(0, {"labels_0": {"class_counts": [2, 0, 1, 0, 0]}}, infos=infos)
    window = view.select(next(points([part], shapes={})))
    assert window is not None
    assert window.vectors("class_counts")[0].values.tolist() == [2.0, 0.0, 1.0]


def test_a_step_with_vectors_is_returned_after_they_must_exist(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run")
    feed = Feed(writer.path, TimeGrid(START_NS), with_arrays=True)

    def given() -> list[int]:
        feed.refresh()
        return [point.step for point in feed.points()]

    def one(step: int) -> ArrayStatistics:
        return ArrayStatistics(step, {"relu_output_0": {"unit_activity": [1.0]}})

    writer.write(one(0))
    writer.write(Capture(1))
    assert given() == []
    writer.write(Capture(2))
    assert given() == [0]
    for step in range(3, 8):  # nobody waits for the next vector before going on
        writer.write(Capture(step, {"loss": {"value": 1.0}}))
    assert given() == [3, 4, 5]
    writer.write(one(8))
    writer.write(Capture(9))
    assert given() == [6, 7]
    feed.refresh(is_over=True)
    assert [(point.step, len(point.arrays)) for point in feed.points()] == [(8, 1)]
    assert not feed.has_late_data


def test_the_reader_gives_arrays_and_numbers(tmp_path) -> None:
    values = np.arange(12.0).reshape(4, 3)
    writer = RunWriter(tmp_path / "run")
    writer.write_all(
        [
            ArrayStatistics(0, {"relu_output_0": {"unit_mean": [1.0, 2.0]}}),
            raw(0, w=values),
            raw(2, w=values + 1),
            Capture(3),
        ]
    ).end()
    run = leadline.open_run(writer.path)
    assert set(run.tensor_names()) == {"relu_output_0", "w"}
    activations, weights = run.tensor("relu_output_0"), run.tensor("w")
    assert activations.statistic_array("unit_mean", 0).tolist() == [1.0, 2.0]
    assert activations.statistic_names() == ["nonfinite_count", "unit_mean"]
    assert weights.statistic_array("unit_mean", 0).tolist() == values.mean(0).tolist()
    assert weights.statistic_array("histogram", 0).tolist() == arrays.compute_vector("histogram", values).tolist()
    assert weights.statistic("p25", 0) == np.percentile(values, 25)
    assert weights.statistic("change_l2", 2) == pytest.approx(np.sqrt(12))
    assert weights.statistic("close_0_0.5", 2) == 0.0
    assert weights.statistic("checksum", 0) == arrays.checksum(values)
    assert run.verify() == []


def test_statistic_tables_contain_values_computed_from_raw_tensors(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run")
    loss = {"loss": {"value": 1.0}}
    writer.write_all(
        [
            raw(0, w=np.ones(2)),
            Capture(0, {"w": {"l1": 7.0}}),
            raw(3, w=np.full(2, 3.0)),
            Capture(3, loss, mode_step=2),
            raw(4, w=np.full(2, 4.0)),
            Capture(5),
        ]
    ).end()
    tensor = leadline.open_run(writer.path).tensor("w")
    table = tensor.statistics("l1")
    assert table["step"].to_pylist() == [0, 3, 4]
    assert table["value"].to_pylist() == [7.0, 6.0, 8.0]
    assert table["mode_step"].to_pylist() == [0, 2, None]
    assert tensor.statistics("change_l2")["step"].to_pylist() == [3, 4]
    with pytest.raises(NotCapturedError, match="no update_ratio of w was captured"):
        tensor.statistics("update_ratio")


def test_missing_statistics_are_clear_errors(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run")
    writer.write_all(
        [ArrayStatistics(0, {"relu_output_0": {"unit_mean": [1.0]}}), raw(0, w=np.ones(3)), Capture(1)]
    ).end()
    run = leadline.open_run(writer.path)
    with pytest.raises(NotCapturedError, match=r"use statistic\('l2', 0\)"):
        run.tensor("w").statistic_array("l2", 0)
    with pytest.raises(UnknownNameError, match="did you mean 'unit_mean'"):
        run.tensor("w").statistic_array("unit_means", 0)
    with pytest.raises(NotCapturedError, match="no unit_std of relu_output_0 was captured at step 0"):
        run.tensor("relu_output_0").statistic_array("unit_std", 0)
    with pytest.raises(NotCapturedError, match=r"use statistic_array\('unit_mean', step\)"):
        run.tensor("relu_output_0").statistics("unit_mean")
    with pytest.raises(NotCapturedError, match="no change_l2 of w"):  # there is none before
        run.tensor("w").statistic("change_l2", 0)
