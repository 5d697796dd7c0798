"""Trials that are read while they are written, and the files of which smdebug's interface makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.compat.smdebug import ReductionConfig, SaveConfig, create_trial, modes
from leadline.compat.smdebug.analysis.utils import no_refresh, refresh
from leadline.compat.smdebug.core.access_layer import (
    check_dir_exists,
    has_training_ended,
    is_rule_signalled_gracetime_passed,
    training_has_ended,
)
from leadline.compat.smdebug.core.collection import Collection
from leadline.compat.smdebug.core.collection_manager import CollectionManager
from leadline.compat.smdebug.core.locations import IndexFileLocationUtils, TensorFileLocation
from leadline.compat.smdebug.core.reader import FileReader
from leadline.compat.smdebug.core.tensor import StepState
from leadline.compat.smdebug.core.writer import FileWriter
from leadline.compat.smdebug.exceptions import (
    SMDebugRuntimeError,
    StepNotYetAvailable,
    StepUnavailable,
)
from leadline.compat.smdebug.trials import LocalTrial
from leadline.errors import DamagedRunError

PT1 = Path(__file__).parents[2] / "data" / "smdebug" / "pt1"


def save(folder: Path, step: int, worker: str = "worker_0", **tensors: Any) -> None:
    mode = modes.EVAL if step % 2 else modes.TRAIN
    with FileWriter(trial_dir=str(folder), step=step, worker=worker) as writer:
        for name, values in tensors.items():
            writer.write_tensor(tname=name, tdata=values, mode=mode, mode_step=step // 2)


def announce(folder: Path, workers: int = 1) -> None:
    manager = CollectionManager()
    manager.add(Collection("mine", include_regex=["^a"]))
    for rank in range(workers):
        manager.export(folder, f"worker_{rank}_collections.json", num_workers=workers)


def test_steps_appear_as_they_are_saved(tmp_path: Path) -> None:
    announce(tmp_path)
    trial = create_trial(tmp_path)
    assert (trial.steps(), trial.tensor_names(), trial.last_complete_step) == ([], [], -1)
    for step in range(4):
        assert trial.has_passed_step(step) is StepState.NOT_YET_AVAILABLE
        save(tmp_path, step, a=np.arange(3.0) + step, b=np.float32(step))
        assert trial.has_passed_step(step) is StepState.AVAILABLE
    assert (trial.steps(), trial.steps(modes.TRAIN), trial.steps(modes.EVAL)) == ([0, 1, 2, 3], [0, 1], [0, 1])
    np.testing.assert_array_equal(trial.tensor("a").value(1, mode=modes.EVAL), [3, 4, 5])
    assert trial.tensor_names(collection="mine") == ["a"]
    assert trial.last_index_token == IndexFileLocationUtils.get_index_key_for_step(str(tmp_path), 3, "worker_0")
    assert not trial.loaded_all_steps
    training_has_ended(tmp_path)
    assert trial.loaded_all_steps
    assert has_training_ended(tmp_path)
    assert trial.has_passed_step(4) is StepState.UNAVAILABLE
    with pytest.raises(SMDebugRuntimeError, match="earlier training"):
        check_dir_exists(tmp_path)


def test_a_step_is_complete_when_all_workers_saved_it(tmp_path: Path) -> None:
    announce(tmp_path, workers=2)
    trial = create_trial(tmp_path)
    assert trial.workers() == ["worker_0", "worker_1"]
    save(tmp_path, 0, "worker_0", a=np.ones(2))
    assert (trial.steps(), trial.steps(show_incomplete_steps=True)) == ([], [0])
    assert trial.has_passed_step(0) is StepState.NOT_YET_AVAILABLE
    save(tmp_path, 0, "worker_1", a=np.zeros(2))
    assert (trial.steps(), trial.tensor("a").workers(0)) == ([0], ["worker_0", "worker_1"])
    assert trial.tensor("a").value(0, worker="worker_1").tolist() == [0, 0]
    save(tmp_path, 4, "worker_0", a=np.ones(2))
    save(tmp_path, 4, "worker_1", a=np.ones(2))
    with pytest.raises(StepUnavailable):
        trial.tensor("a").value(2)
    with pytest.raises(StepNotYetAvailable):
        trial.tensor("a").value(5)


def test_new_data_is_read_only_where_it_may_be(tmp_path: Path) -> None:
    announce(tmp_path)
    save(tmp_path, 0, a=np.ones(2))
    trial = LocalTrial(name="t", dirname=str(tmp_path))
    trial.collection("own").include("^b")
    with no_refresh([trial]) as [same]:
        save(tmp_path, 1, b=np.ones(2))
        assert same.steps() == [0]
        with refresh(trial):
            assert trial.steps() == [0, 1]
    assert trial.tensor_names(collection="own") == ["b"]


def test_reductions_and_shapes_are_read_from_the_index(tmp_path: Path) -> None:
    announce(tmp_path)
    writer = FileWriter(trial_dir=str(tmp_path), step=0, worker="worker_0")
    writer.write_tensor("smdebug/reductions/abs_max/w", np.float64(3), modes.TRAIN, 0)
    writer.write_shape("w", (2, 5), modes.TRAIN, 0)
    writer.close()
    tensor = create_trial(tmp_path).tensor("w")
    assert tensor.reduction_values(0) == {("max", True): 3.0}
    assert tensor.shape(0) == (2, 5)


def test_what_a_writer_wrote_is_what_a_reader_reads(tmp_path: Path) -> None:
    seconds = 1795647845.4123323
    with FileWriter(trial_dir=str(tmp_path), step=20, worker="algo-1") as writer:
        writer.write_tensor("texts", np.array(["foo", "barz"]))
        writer.write_tensor("numbers", [1, 2], mode=modes.EVAL, mode_step=3, timestamp=seconds)
    assert writer.name() == TensorFileLocation(20, "algo-1").get_file_location(str(tmp_path))
    texts, numbers = FileReader(writer.name()).read_tensors()
    assert (texts[0], texts[1], texts[2].tolist(), *texts[3:]) == ("texts", 20, ["foo", "barz"], modes.GLOBAL, 20)
    assert (numbers[2].tolist(), *numbers[3:]) == ([1, 2], modes.EVAL, 3)
    (event,) = FileReader(writer.name()).read_events(regex_list=["^num"])
    assert event["timestamp"] == seconds
    Path(writer.name()).write_bytes(Path(writer.name()).read_bytes()[:-3])
    with pytest.raises(ValueError, match="truncated"):
        list(FileReader(writer.name()).read_tensors())


def test_modes_have_the_numbers_of_smdebug() -> None:
    assert [mode.name for mode in sorted(modes, key=lambda mode: mode.value)] == ["TRAIN", "EVAL", "PREDICT", "GLOBAL"]
    for step, stamp in ((2, (modes.TRAIN, 2)), (4, (modes.EVAL, 0))):  # of files that smdebug itself wrote
        path = TensorFileLocation(step, "worker_0").get_file_location(str(PT1))
        assert {tuple(read[3:]) for read in FileReader(path).read_tensors()} == {stamp}


def test_a_damaged_event_file_costs_its_values_only(tmp_path: Path) -> None:
    announce(tmp_path)
    save(tmp_path, 0, a=np.ones(2))
    save(tmp_path, 2, a=np.ones(2))
    Path(TensorFileLocation(0, "worker_0").get_file_location(str(tmp_path))).unlink()
    Path(IndexFileLocationUtils.get_index_key_for_step(str(tmp_path), 4, "worker_0")).write_text("{")
    trial = create_trial(tmp_path)
    assert trial.steps() == [0, 2]
    with pytest.raises(DamagedRunError, match="a cannot be read: no such file"):
        trial.tensor("a").value(0)
    assert trial.tensor("a").value(2).tolist() == [1, 1]


def test_collections_are_written_and_read_as_they_are(tmp_path: Path) -> None:
    manager = CollectionManager()
    manager.add("empty")
    save_config = SaveConfig({modes.TRAIN: {"save_interval": 10}})
    manager.add(Collection("full", ["x"], {"b", "a"}, ReductionConfig(reductions=["min"]), save_config, False))
    manager.export(tmp_path, "worker_0_collections.json")
    path = tmp_path / "collections" / "000000000" / "worker_0_collections.json"
    assert json.loads(path.read_text())["_meta"] == {"num_workers": 1}
    assert CollectionManager.load(path) == manager
    assert Collection.from_json(manager.get("full").to_json()) == manager.get("full")


@pytest.mark.parametrize(("content", "is_passed"), [("0", True), ("99999999999", False), ("soon", True), (None, False)])
def test_a_rule_is_asked_to_stop_by_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, is_passed: bool
) -> None:
    assert not is_rule_signalled_gracetime_passed(tmp_path)
    monkeypatch.setenv("SAGEMAKER_ENV_RULE_STOP_SIGNAL_FILE", "signal")
    if content is not None:
        (tmp_path / "signal").write_text(content)
    assert is_rule_signalled_gracetime_passed(tmp_path) is is_passed
