"""Trials in smdebug's interface, compared with what smdebug's own reader returned."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.compat.smdebug import Trial, create_trial, modes
from leadline.compat.smdebug.core.collection import Collection
from leadline.compat.smdebug.core.tensor import StepState
from leadline.compat.smdebug.exceptions import (
    InvalidWorker,
    NoMoreData,
    ShapeUnavailableForStep,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from leadline.testing.runs import Capture, RunWriter

DATA = Path(__file__).parents[2] / "data" / "smdebug"
CopyOf = Callable[[str], Path]


@pytest.fixture(scope="module", params=["pt1", "tf_tape", "xg1"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        trial = create_trial(DATA / request.param)
    return trial, json.loads((DATA / f"{request.param}.expected.json").read_text())


@pytest.fixture
def pt1() -> Trial:
    return create_trial(str(DATA / "pt1") + " ")


def test_steps_modes_workers_and_names(recorded: tuple[Trial, dict[str, Any]]) -> None:
    trial, expected = recorded
    assert trial.steps() == expected["steps"]
    assert {mode.name for mode in trial.modes()} == set(expected["modes"])
    assert {mode.name: trial.steps(mode) for mode in trial.modes()} == expected["mode_steps"]
    assert trial.workers() == expected["workers"]
    assert trial.tensor_names() == sorted(expected["tensors"])
    assert (trial.loaded_all_steps, trial.num_workers, trial.last_complete_step) == (True, 1, expected["steps"][-1])


def test_collections(recorded: tuple[Trial, dict[str, Any]]) -> None:
    trial, expected = recorded
    assert {name: sorted(found.tensor_names) for name, found in trial.collections().items()} == expected["collections"]


def test_values_and_reductions(recorded: tuple[Trial, dict[str, Any]]) -> None:
    trial, expected = recorded
    for name, of_tensor in expected["tensors"].items():
        tensor = trial.tensor(name)
        assert tensor.steps() == of_tensor["steps"], name
        for text, value in of_tensor["values"].items():
            step = int(text)
            reductions = {
                f"{'abs_' * of_abs}{red}": found for (red, of_abs), found in tensor.reduction_values(step).items()
            }
            assert reductions == of_tensor["reductions"][text], name
            if "error" in value:  # smdebug's reader loses raw tensors of which the shape is saved too
                assert tensor.value(step).shape == tensor.shape(step)
                continue
            found = tensor.value(step)
            assert (list(found.shape), str(found.dtype).lstrip("<")) == (value["shape"], value["dtype"].lstrip("<")), (
                name
            )
            np.testing.assert_array_equal(found.ravel()[:3], value["first"], err_msg=name)


def test_modes_have_steps_of_their_own(pt1: Trial) -> None:
    loss = pt1.tensor("CrossEntropyLoss_output_0")
    assert loss.steps(modes.EVAL) == [0]
    assert loss.value(0, mode=modes.EVAL) == loss.value(4)
    assert pt1.mode_modestep(6) == (modes.TRAIN, 4)
    assert (pt1.mode(4), pt1.mode_step(4), pt1.mode(5)) == (modes.EVAL, 0, None)
    assert (pt1.global_step(modes.TRAIN, 6), pt1.global_step(modes.TRAIN, 5)) == (8, None)
    assert list(loss.values(modes.TRAIN)) == [0, 2, 4, 6]
    assert loss.prev_steps(5, 2) == [2, 4]
    assert loss.workers(4) == ["worker_0"]


def test_names_are_selected(pt1: Trial) -> None:
    gradients = [f"gradient/Net_{name}" for name in ("conv1.bias", "conv1.weight", "fc.bias", "fc.weight")]
    assert pt1.tensor_names(collection="gradients") == gradients
    assert pt1.tensor_names(regex="^gradient") == gradients
    assert pt1.tensor_names(regex=["^gradient/Net_fc", "img"]) == [*gradients[2:], "img"]
    assert pt1.tensor_names(collection=Collection("mine", ["^img$"])) == ["img"]
    assert pt1.tensor_names(step=0, mode=modes.EVAL, regex="^gradient") == []
    assert pt1.tensor_names(step=1) == []
    assert pt1.tensor_names(collection="none") == []
    with pytest.raises(ValueError, match="either regex or collection"):
        pt1.tensor_names(regex="a", collection="losses")


def test_reductions_are_computed_from_the_elements(pt1: Trial) -> None:
    tensor = pt1.tensor("Net_fc.bias")
    values = tensor.value(2)
    assert tensor.reduction_value(2, "mean") == pytest.approx(values.mean(), rel=1e-6)
    assert tensor.reduction_value(2, "l1", abs=True) == pytest.approx(abs(values).sum(), rel=1e-6)
    assert tensor.reduction_values(2) == {}
    with pytest.raises(ValueError, match="no reduction named 'median'"):
        tensor.reduction_value(2, "median")


def test_exceptions(pt1: Trial) -> None:
    loss, gradient = pt1.tensor("CrossEntropyLoss_output_0"), pt1.tensor("gradient/Net_fc.bias")
    with pytest.raises(TensorUnavailable, match="no tensor 'none'"):
        pt1.tensor("none")
    with pytest.raises(TensorUnavailableForStep):
        gradient.value(4)
    with pytest.raises(StepUnavailable):
        loss.value(3)
    with pytest.raises(StepUnavailable):
        loss.value(100)
    with pytest.raises(InvalidWorker):
        loss.value(2, worker="worker_7")
    with pytest.raises(NoMoreData, match="the last step is 8"):
        pt1.wait_for_steps([2, 9])
    with pytest.raises(StepUnavailable):
        pt1.wait_for_steps([3])
    pt1.wait_for_steps([0, 2, 8])
    with pytest.raises(TypeError, match="unknown"):
        create_trial(DATA / "pt1", unknown=1)


def test_tensors_without_elements(copy_of: CopyOf) -> None:
    trial = copy_of("pt1")
    for path in sorted((trial / "index").rglob("*.json")):
        document = json.loads(path.read_text())
        document["tensor_payload"] = [one for one in document["tensor_payload"] if one["tensorname"] != "Net_fc.weight"]
        path.write_text(json.dumps(document))
    tensor = create_trial(trial).tensor("Net_fc.weight")
    with pytest.raises(TensorUnavailableForStep, match="its reductions were") as caught:
        tensor.value(2)
    assert caught.value.has_reductions
    assert tensor.shape(2) == (3, 72)
    assert set(tensor.reduction_values(2)) == {
        ("mean", False),
        ("variance", False),
        ("l2", False),
        ("max", True),
        ("l1", True),
    }
    assert tensor.values() == {}


def test_range_of_steps() -> None:
    trial = create_trial(DATA / "pt1", range_steps=(2, 6), check=True)
    assert trial.steps() == [2, 4]
    assert trial.steps(modes.TRAIN) == [2]
    with pytest.raises(ValueError, match="the end must be greater"):
        create_trial(DATA / "pt1", range_steps=(6, 2))


def test_passed_steps_of_a_growing_trial(copy_of: CopyOf) -> None:
    path = copy_of("tf_tape")
    (path / "training_job_end.ts").unlink()
    trial = create_trial(path)
    assert not trial.loaded_all_steps
    assert trial.has_passed_step(2) is StepState.AVAILABLE
    assert trial.has_passed_step(3) is StepState.UNAVAILABLE
    assert trial.has_passed_step(5) is StepState.NOT_YET_AVAILABLE


def test_incomplete_steps_and_devices_as_workers(copy_of: CopyOf) -> None:
    path = copy_of("tf_tape")
    device = "_job-worker_replica-0_task-1_device-GPU-0"
    name = "000000000002_worker_0"
    index = path / f"index/000000000/{name}.json"
    index.with_name(f"000000000002_{device}.json").write_text(index.read_text())
    collections = path / "collections/000000000/worker_0_collections.json"
    collections.write_text(collections.read_text().replace('"num_workers": 1', '"num_workers": 2'))
    (path / "training_job_end.ts").unlink()
    trial = create_trial(path)
    assert trial.workers() == ["/job:worker/replica:0/task:1/device:GPU:0", "worker_0"]
    assert trial.tensor("loss").value(2, worker=trial.workers()[0]) == trial.tensor("loss").value(2, worker="worker_0")
    assert (trial.steps(), trial.steps(show_incomplete_steps=True)) == ([0, 2], [0, 2, 4])
    assert trial.last_complete_step == 2
    shutil.rmtree(path)


def test_a_run_of_leadline_is_a_trial(tmp_path: Path) -> None:
    parts = [
        Capture(step, {"loss": {"value": float(step)}, "gradient/w": {"mean": 0.5, "l2": 2.0}}) for step in range(3)
    ]
    parts.append(Capture(3, {"loss": {"value": 7.0}}, mode="eval", mode_step=0))
    RunWriter(tmp_path / "run").write_all(parts).end()
    trial = create_trial(tmp_path / "run")
    assert (trial.steps(), trial.steps(modes.EVAL)) == ([0, 1, 2, 3], [0])
    assert trial.tensor("loss").value(0, mode=modes.EVAL) == 7.0
    assert trial.tensor("gradient/w").reduction_values(1) == {("mean", False): 0.5, ("l2", False): 2.0}
    assert trial.tensor_names(collection="losses") == ["loss"]
    with pytest.raises(TensorUnavailableForStep):
        trial.tensor("gradient/w").value(1)
    with pytest.raises(ShapeUnavailableForStep):
        trial.tensor("gradient/w").shape(1)
