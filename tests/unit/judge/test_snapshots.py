"""Snapshots of a finding's tensors, compared with what was written into the run."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from safetensors.numpy import load_file

from leadline.judge.snapshots import MAX_BYTES, MAX_VALUES, fitting, snapshots
from leadline.records.notification import Notification, TensorSnapshot
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.records.series import TensorInfo
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.testing.runs import Capture, Part, RawTensors, RunWriter

INFO = TensorInfo("fc.weight", ("weights",), (2, 3), "float32")


def notification(*names: str, step: int = 7, worker: str | None = "rank0-1") -> Notification:
    tensors = tuple(map(TensorSnapshot, names))
    return Notification(
        "e/opened/7",
        "finding",
        "r",
        "/r",
        "IssuesFound",
        0,
        rule="e",
        step=step,
        global_step=step,
        worker=worker,
        tensors=tensors,
    )


def captures(worker: str = "rank0-1", factor: float = 1.0) -> list[Part]:
    return [
        Capture(
            step,
            {"loss": {"value": factor * step}, "fc.weight": {"abs_max": step + 0.5, "l2": factor}},
            worker=worker,
            infos={"fc.weight": INFO},
        )
        for step in range(10)
    ]


def raw(values: np.ndarray, step: int = 7, name: str = "fc.weight") -> RawTensors:
    return RawTensors(step, {name: ("F32", values.shape, values.astype("<f4").tobytes())})


def storing(writer: RunWriter) -> None:
    """Have the run's plan say that tensors are stored at every step."""
    plan = CapturePlan((CaptureItem("weights", raw=True, schedule=Schedule(every=1)),))
    write_document(f"{writer.path}/{layout.MANIFEST}", replace(writer.manifest, plan=plan).to_dict())


def test_a_snapshot_has_the_statistics_of_its_step_and_worker(tmp_path: Path) -> None:
    parts = [*captures(), *captures("rank1-2", 100.0)]
    path = RunWriter(tmp_path / "run", segment_batches=3).write_all(parts).path
    first, other = snapshots(path, notification("fc.weight", "loss"))
    assert first == TensorSnapshot("fc.weight", (2, 3), "float32", {"abs_max": 7.5, "l2": 1.0})
    assert other.statistics == {"value": 7.0}
    (of_other,) = snapshots(path, notification("loss", worker="rank1-2"))
    assert of_other.statistics == {"value": 700.0}
    (of_any,) = snapshots(path, notification("loss", worker=None))
    assert of_any.statistics == {"value": 7.0}


def test_a_tensor_that_was_not_captured_at_the_step_has_only_its_name(tmp_path: Path) -> None:
    path = RunWriter(tmp_path / "run").write_all(captures()).path
    assert snapshots(path, notification("fc.weight", "no.such", step=70)) == (
        TensorSnapshot("fc.weight"),
        TensorSnapshot("no.such"),
    )


def test_a_raw_tensor_has_its_first_values_and_its_location(tmp_path: Path) -> None:
    values = np.arange(40.0).reshape(5, 8)
    values[0, 1] = np.nan
    path = RunWriter(tmp_path / "a run").write_all([*captures(), raw(values * 0, 6), raw(values)]).path
    (found,) = snapshots(path, notification("fc.weight"))
    assert found.shape == (5, 8)
    assert found.values is not None
    np.testing.assert_array_equal(found.values, values.reshape(-1)[:MAX_VALUES])
    assert found.statistics["abs_max"] == 7.5
    place = urlsplit(found.uri)
    stored = load_file(unquote(str(place.path)))[unquote(str(place.fragment))]
    np.testing.assert_array_equal(stored, values.astype("f4"))


def test_a_tensor_that_is_written_a_moment_later_is_awaited(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(captures())
    storing(writer)
    later = threading.Timer(0.3, lambda: writer.write(raw(np.ones((2, 3)))))
    later.start()
    (found,) = snapshots(writer.path, notification("fc.weight"), wait_seconds=30.0)
    later.join()
    assert found.values == (1.0,) * 6


@pytest.mark.parametrize("is_over", [True, False])
def test_a_tensor_that_will_not_be_written_is_not_awaited(tmp_path: Path, is_over: bool) -> None:
    """The run is over, or the worker has stored a later step already."""
    writer = RunWriter(tmp_path / "run").write_all(captures())
    storing(writer)
    if is_over:
        writer.end()
    else:
        writer.write(raw(np.ones((2, 3)), 8))
    (found,) = snapshots(writer.path, notification("fc.weight"), wait_seconds=3600.0)
    assert found.values is None
    assert found.statistics


def test_a_segment_that_cannot_be_read_hides_nothing_else(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").write_all([*captures(), raw(np.ones((2, 3)))])
    Path(writer.path, layout.tensor_segment("rank0-1", 2)).write_bytes(b"not a safetensors file")
    Path(writer.path, layout.segment("series", "rank0-1", 99)).write_bytes(b"\0" * 64)
    (found,) = snapshots(writer.path, notification("fc.weight"))
    assert (found.values, found.statistics["l2"]) == ((1.0,) * 6, 1.0)


def test_snapshots_are_limited_to_four_kilobytes_and_names_are_removed_last() -> None:
    statistics = dict.fromkeys(("min", "max", "mean", "std", "l2", "abs_max", "abs_mean"), 1.2345678901234567)
    place = "file:///runs/a/tensors/rank0-1/000001.safetensors#train/1/encoder.layers.0.weight"
    values = (0.1234567890123456,) * 16
    found = [
        TensorSnapshot(f"encoder.layers.{index}.weight", (1024, 1024), "float32", statistics, values, place)
        for index in range(20)
    ]
    kept = fitting(found)
    assert (
        len(json.dumps(Notification("", "finding", "", "", "", 0, tensors=kept).to_dict()["tensors"]))
        <= 1.1 * MAX_BYTES
    )
    assert [each.name for each in kept] == [each.name for each in found]
    assert kept[0].statistics == statistics
    assert kept[-1].statistics == {}
    assert fitting(found[:2]) == tuple(found[:2])
    assert len(fitting([TensorSnapshot("x" * 900)] * 20)) == 4
