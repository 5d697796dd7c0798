"""Unchanged scripts for smdebug, with and without ``leadline run``: what the hook saves is what they computed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import MXNET, Ended, environment, finish, needs_mxnet, rule, script, watched

from leadline.compat.smdebug import create_trial, modes

TREES = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
LOGGERS = str(Path(__file__).parents[2] / ".venvs" / "loggers" / "bin" / "python")
READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], {"scalars": 0})
events.Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""
pytestmark = pytest.mark.slow
TENSORFLOW = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
PRINT_NAMES = """
import importlib, json, pkgutil, sys

module = importlib.import_module(sys.argv[1])
names = {name: getattr(module, name) for name in module.__all__}
places = {
    place: pkgutil.resolve_name(f"{sys.argv[1]}.{place}") is names[place.rpartition(".")[2]]
    for place in ("singleton_utils.get_hook", "collection.Collection", "collection.CollectionKeys")
}
print(json.dumps([sorted(names), places]))
"""
WITHOUT_LAUNCHER = "import runpy, sys; import leadline.compat.smdebug as s; s.install(); sys.argv = sys.argv[1:]; "


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("smdebug")
    arguments = ("--smdebug_path", str(folder / "tensors"), "--truth", str(folder / "truth.npz"))
    configured = folder / "profilerconfig.json"
    window = {"DataloaderProfilingConfig": '{"StartStep": 3, "NumSteps": 2, }'}
    configured.write_text(json.dumps({"ProfilingIntervalInMilliseconds": 1000, "ProfilingParameters": window}))
    ended = watched(
        ["--smdebug", "--no-default-rules", "--rule", "VanishingGradient"],
        script("smdebug_torch.py"),
        *arguments,
        folder=folder,
        SMPROFILER_CONFIG_PATH=str(configured),
    )
    assert ended.status == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def truth(ended: Ended) -> dict[str, Any]:
    with np.load(ended.root.parent / "truth.npz") as stored:
        return dict(stored)


def test_the_folder_of_the_script_opens_as_a_trial(ended: Ended, truth: dict[str, Any]) -> None:
    trial = create_trial(ended.root.parent / "tensors")
    assert {mode.name for mode in trial.modes()} == {"TRAIN", "EVAL"}
    # 12 train steps and 6 eval steps, in turns of 6 and 3; every 4th of a mode, and its step 1
    trained, evaluated = [0, 1, 4, 11], [6, 7, 16]
    for name in ("Net_conv1.weight", "Net_fc2.bias", "gradient/Net_fc1.weight", "gradient/Net_conv1.bias"):
        assert {*trained} <= {*trial.tensor(name).steps()}, name
        for step in trained:
            np.testing.assert_array_equal(trial.tensor(name).value(step), truth[f"{step}|{name}"], err_msg=name)
    for step in (*trained, *evaluated):
        np.testing.assert_array_equal(trial.tensor("Net_output_0").value(step), truth[f"{step}|Net_output_0"])
        loss = trial.tensor("NLLLoss_output_0").value(step)
        np.testing.assert_allclose(loss, truth[f"{step}|NLLLoss_output_0"], rtol=1e-6)
    assert trial.tensor("relu0_output_0").reduction_values(4).keys() >= {("mean", False), ("min", False), ("l2", False)}
    assert trial.tensor_names(collection="relu") == ["relu0_output_0", "relu1_output_0"]
    assert len(trial.tensor("scalar/correct").steps(modes.TRAIN)) == 12


def test_the_configuration_of_the_profiler_is_that_of_the_run(ended: Ended) -> None:
    manifest = ended.run.manifest
    assert [window.describe() for window in manifest.profile] == ["dataloader from step 3, 2 steps"]
    assert manifest.interval_ms == 1000


def test_tensorboard_shows_what_the_hook_saves(ended: Ended) -> None:
    """The files are read by TensorBoard itself."""
    folder = ended.root.parent / "tensors" / "tensorboard"
    shown = {}
    for stream in folder.iterdir():
        done = finish([LOGGERS, "-c", READ_EVENTS, str(stream)], ended.root.parent, env=environment())
        assert done.status == 0, done.err
        shown[stream.name.rpartition("-")[2]] = json.loads(done.out)
    recorded = {mode: [] for mode in shown}
    for row in ended.run.scalars("NLLLoss_output_0").to_pylist():
        recorded[row["mode"]].append(row["value"])
    for mode, values in recorded.items():
        assert [value for _, value in shown[mode]["NLLLoss_output_0"]] == pytest.approx(values, rel=1e-6)
    assert {"train", "eval"} == set(shown)
    assert [step for step, _ in shown["train"]["NLLLoss_output_0"]] == list(range(12))
    assert len(shown["train"]["scalar/correct"]) == 12


def test_the_run_is_judged_and_read_as_any_other(ended: Ended) -> None:
    assert (ended.root.parent / "tensors").resolve() == Path(ended.run.path).resolve()
    assert rule(ended.show(), "vanishing_gradient")["status"] == "NoIssuesFound"
    assert {"Net_fc1.weight", "gradient/Net_fc1.weight"} <= set(ended.run.tensor_names())


def test_a_script_for_xgboost_writes_its_own_folder_without_a_launcher(tmp_path: Path) -> None:
    out, stored = tmp_path / "tensors", tmp_path / "truth.json"
    code = f"{WITHOUT_LAUNCHER} runpy.run_path(sys.argv[0], run_name='__main__')"
    arguments = ["--smdebug_path", str(out), "--truth", str(stored)]
    ended = finish([TREES, "-c", code, script("smdebug_xgboost.py"), *arguments], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    truth = json.loads(stored.read_text())
    trial = create_trial(out)
    assert trial.loaded_all_steps
    for metric in ("train-logloss", "validation-logloss", "train-auc", "validation-auc"):
        data, name = metric.split("-")
        tensor = trial.tensor(metric)
        assert tensor.steps() == [0, 2, 4, 6]
        assert [tensor.value(step).item() for step in tensor.steps()] == truth["results"][data][name][::2]
    assert set(trial.tensor_names(collection="metrics")) >= {"train-auc", "train-logloss"}
    assert trial.tensor_names(collection="losses") == ["train-logloss", "validation-logloss"]
    features = [f"f{index}" for index in range(4)]
    assert trial.tensor_names(regex="^full_shap") == [f"full_shap/{feature}" for feature in features]
    assert trial.tensor("full_shap/f1").value(0).shape == (40, 5)
    assert not trial.has_tensor("average_shap/bias")
    assert trial.tensor("hyperparameters/objective").value(0).tolist() == ["binary:logistic"]
    assert trial.tensor("hyperparameters/max_depth").value(0).tolist() == [2]
    assert trial.tensor("trees/Category").steps() == [0]  # every tenth round, not the last one
    for name, gain in truth["gain_at_3"].items():
        tensor = trial.tensor(f"feature_importance/gain/{name}")
        assert tensor.steps() == [0, 3, 6]
        assert tensor.value(3).item() == pytest.approx(gain)
    np.testing.assert_allclose(trial.tensor("predictions").value(0), truth["predictions_at_0"], rtol=1e-6)
    np.testing.assert_array_equal(trial.tensor("labels").value(0), truth["labels"])
    for index, value in enumerate(truth["shap_at_0"][:-1]):
        assert trial.tensor(f"average_shap/f{index}").value(0).item() == pytest.approx(value, abs=1e-6)
    assert trial.tensor("trees/Gain").value(0).shape == (truth["nodes_at_0"],)


def test_a_script_for_keras_is_read_with_smdebugs_names(tmp_path: Path) -> None:
    out, stored = tmp_path / "tensors", tmp_path / "truth.npz"
    code = f"{WITHOUT_LAUNCHER} runpy.run_path(sys.argv[0], run_name='__main__')"
    arguments = ["--out_dir", str(out), "--truth", str(stored)]
    ended = finish([TENSORFLOW, "-c", code, script("smdebug_keras.py"), *arguments], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    with np.load(stored) as kept:
        truth = dict(kept)
    trial = create_trial(out)
    # two epochs of 4 train and 4 eval steps; the last metrics are written at the end
    assert trial.steps(modes.TRAIN) == [0, 2, 4, 6, 7]
    assert {0, 2, 4, 6} <= set(trial.steps(modes.EVAL))
    names = [f"{layer}/weights/{layer}/{kind}:0" for layer in ("hidden", "out") for kind in ("kernel", "bias")]
    assert set(names) <= set(trial.tensor_names())
    for name in names:
        assert trial.tensor(name).steps(modes.TRAIN) == [0, 2, 4, 6]
        for step in (0, 2, 4, 6):
            np.testing.assert_array_equal(trial.tensor(name).value(step, mode=modes.TRAIN), truth[f"{step}|{name}"])
    # one step of SGD with rate 0.1: the weights of the next step give the gradient of this one
    gradient = trial.tensor("gradients/out/kernelGrad").value(0, mode=modes.TRAIN)
    name = "out/weights/out/kernel:0"
    np.testing.assert_allclose((truth[f"0|{name}"] - truth[f"1|{name}"]) / 0.1, gradient, rtol=1e-4, atol=1e-6)
    assert {"hidden/inputs", "hidden/outputs", "loss", "accuracy", "scalar/epochs"} <= set(trial.tensor_names())
    assert trial.tensor_names(collection="weights") == ["hidden/weights/hidden/kernel:0", "out/weights/out/kernel:0"]
    sides = [f"{layer}/{side}" for layer in ("hidden", "out") for side in ("inputs", "outputs")]
    assert trial.tensor_names(collection="layers") == sides  # neither those of the model nor those of the loss
    assert trial.tensor_names(collection="of_hidden") == ["hidden/inputs", "hidden/outputs"]
    assert trial.tensor("loss").steps(modes.EVAL) == [0, 2, 4, 6]
    assert trial.tensor_names(collection="metrics") == ["accuracy", "batch"]
    batches = trial.tensor("batch")
    assert [batches.value(step, mode=modes.TRAIN).item() for step in batches.steps(modes.TRAIN)] == [0, 2, 0, 2, 3]


def test_a_script_without_a_hook_has_the_names_of_one_with_a_hook(tmp_path: Path) -> None:
    capture = ("--capture", "gradients:every=1", "--capture", "optimizer_variables:every=1", "--capture", "weights")
    ended = watched(["--smdebug", "--no-default-rules", *capture], script("without_hook.py"), folder=tmp_path)
    assert ended.status == 0, ended.err
    trial = create_trial(ended.run.path)
    names = [f"Net_{layer}.{part}" for layer in ("conv1", "fc") for part in ("bias", "weight")]
    assert trial.tensor_names(collection="gradients") == [f"gradient/{name}" for name in names]
    assert trial.tensor_names(collection="weights") == names[1::2]
    assert trial.workers() == ["worker_0"]


@needs_mxnet
def test_a_script_for_mxnet_saves_what_its_blocks_computed(tmp_path: Path) -> None:
    out, stored = tmp_path / "tensors", tmp_path / "truth.npz"
    code = f"{WITHOUT_LAUNCHER} runpy.run_path(sys.argv[0], run_name='__main__')"
    arguments = ["--smdebug_path", str(out), "--truth", str(stored)]
    ended = finish([MXNET, "-c", code, script("smdebug_mxnet.py"), *arguments], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    with np.load(stored) as file:
        truth = dict(file)
    trial = create_trial(out)
    assert (trial.steps(modes.TRAIN), trial.steps(modes.EVAL)) == ([0, 1, 2, 3, 4], [0, 1])
    for name in ("dense0_weight", "dense1_bias", "gradient/dense0_weight", "gradient/dense1_bias"):
        tensor = trial.tensor(name)
        assert tensor.steps() == [0, 2, 4], name
        for step in tensor.steps():
            np.testing.assert_allclose(tensor.value(step), truth[f"{step}|{name}"], rtol=1e-5, err_msg=name)
    loss = trial.tensor("softmaxcrossentropyloss0_output_0")
    assert loss.steps() == [0, 2, 4, 5, 6]
    for step in loss.steps():
        assert loss.value(step).item() == pytest.approx(truth[f"{step}|{loss.name}"].item(), rel=1e-5)
    np.testing.assert_array_equal(trial.tensor("dense0_input_0").value(2), truth["2|dense0_input_0"])
    np.testing.assert_array_equal(trial.tensor("early").value(0), [1, 2, 3])
    seen = trial.tensor("scalar/seen")
    assert {step: seen.value(step).item() for step in seen.steps()} == {step: 4 * (step + 1) for step in range(5)}
    assert trial.tensor_names(collection="first") == ["dense0_input_0"]
    assert trial.tensor_names(collection="outputs_of_relu") == ["dense0_relu_output_0"]
    assert all(name.startswith("gradient/") for name in trial.tensor_names(regex="^gradient"))


@pytest.mark.parametrize(
    ("python", "framework", "hook"),
    [
        pytest.param(sys.executable, "pytorch", "Hook", id="pytorch"),
        pytest.param(TREES, "xgboost", "Hook", id="xgboost"),
        pytest.param(TENSORFLOW, "tensorflow", "KerasHook", id="tensorflow"),
        pytest.param(MXNET, "mxnet", "Hook", id="mxnet", marks=needs_mxnet),
    ],
)
def test_each_framework_has_the_names_of_smdebug(tmp_path: Path, python: str, framework: str, hook: str) -> None:
    module = f"leadline.compat.smdebug.{framework}"
    ended = finish([python, "-c", PRINT_NAMES, module], tmp_path, env=environment(TF_CPP_MIN_LOG_LEVEL="3"))
    assert ended.status == 0, ended.err
    names, places = json.loads(ended.lines[-1])
    common = {"CollectionKeys", "ReductionConfig", "SaveConfig", "SaveConfigMode", "create_trial", "modes"}
    assert set(names) == {hook, "Collection", "del_hook", "get_hook", "set_hook", *common}
    assert places == dict.fromkeys(places, True)
