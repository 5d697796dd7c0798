"""smdebug's hook for PyTorch: what it saves, compared with what the training computed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leadline
import leadline.compat.smdebug.pytorch as smd
from leadline.compat.export.trial import export_trial
from leadline.compat.smdebug import Trial, create_trial
from leadline.compat.smdebug.core.access_layer import has_training_ended
from leadline.compat.smdebug.core.collection import Collection
from leadline.compat.smdebug.core.reader import FileReader
from leadline.compat.smdebug.exceptions import (
    InvalidCollectionConfiguration,
    SMDebugError,
    SMDebugRuntimeError,
    SMDebugTypeError,
    SMDebugValueError,
)
from leadline.compat.smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from leadline.errors import ConfigurationError
from leadline.exports.span import Span

TRAIN, EVAL = smd.modes.TRAIN, smd.modes.EVAL
Truth = dict[str, dict[int, np.ndarray]]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add_module("conv", nn.Conv2d(1, 2, 3))
        self.add_module("relu", nn.ReLU())
        self.add_module("fc", nn.Linear(8, 3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.relu(self.conv(images)).flatten(1))


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    hook = smd.get_hook()
    if hook is not None:
        hook.close()
    smd.del_hook()


def train(hook: smd.Hook, epochs: int = 2, steps: int = 4, *, sets_modes: bool = True) -> Truth:
    """Train and evaluate; return every array by smdebug's name and global step."""
    torch.manual_seed(0)
    model, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hook.register_module(model)
    hook.register_loss(loss_of)
    truth: Truth = {}
    step = 0

    def note(name: str, tensor: torch.Tensor) -> None:
        truth.setdefault(name, {})[step] = tensor.detach().numpy().copy()

    for _ in range(epochs):
        for mode, count in (TRAIN, steps), (EVAL, 2):
            if mode is EVAL and not sets_modes:
                continue
            if sets_modes:
                hook.set_mode(mode)
            model.train(mode is TRAIN)
            for batch in range(count):
                images, labels = torch.randn(4, 1, 4, 4), torch.tensor([0, 1, 2, batch % 3])
                if mode is TRAIN:
                    for name, parameter in model.named_parameters():
                        note(f"Net_{name}", parameter)
                optimizer.zero_grad()
                output = model(images)
                loss = loss_of(output, labels)
                note("fc_output_0", output)
                note("Net_output_0", output)
                note("Net_input_0", images)
                note("CrossEntropyLoss_output_0", loss)
                note("CrossEntropyLoss_input_1", labels)
                if mode is TRAIN:
                    loss.backward()
                    for name, parameter in model.named_parameters():
                        assert parameter.grad is not None
                        note(f"gradient/Net_{name}", parameter.grad)
                    optimizer.step()
                step += 1
    hook.close()
    return truth


def assert_saved(trial: Trial, truth: Truth, name: str, steps: list[int]) -> None:
    tensor = trial.tensor(name)
    assert tensor.steps() == steps, name
    for step in steps:
        np.testing.assert_array_equal(tensor.value(step), truth[name][step], err_msg=f"{name} {step}")


def test_everything_is_saved_at_the_steps_of_each_mode(tmp_path: Path) -> None:
    config = smd.SaveConfig({EVAL: smd.SaveConfigMode(save_interval=1)}, save_interval=3, save_steps=[1])
    truth = train(smd.Hook(tmp_path / "out", save_config=config, save_all=True))
    trial = smd.create_trial(tmp_path / "out")
    # train steps 0, 1, 3, 6 of 0 … 7; every eval step: global steps 4, 5, 10, 11
    trained, evaluated = [0, 1, 3, 8], [4, 5, 10, 11]
    assert (trial.steps(TRAIN), trial.steps(EVAL)) == ([0, 1, 3, 6], [0, 1, 2, 3])
    assert trial.steps() == sorted(trained + evaluated)
    for name in (
        "Net_conv.weight",
        "Net_conv.bias",
        "Net_fc.weight",
        "gradient/Net_fc.bias",
        "gradient/Net_conv.weight",
    ):
        assert_saved(trial, truth, name, trained)
    for name in ("fc_output_0", "Net_output_0", "Net_input_0", "CrossEntropyLoss_output_0", "CrossEntropyLoss_input_1"):
        assert_saved(trial, truth, name, sorted(trained + evaluated))
    assert {name for name in trial.tensor_names() if "momentum" in name} == set()
    assert trial.tensor_names(collection="weights") == ["Net_conv.weight", "Net_fc.weight"]
    assert trial.tensor_names(collection="all") == trial.tensor_names()
    assert (trial.loaded_all_steps, trial.workers()) == (True, ["worker_0"])
    assert trial.tensor("Net_fc.weight").value(0, worker="worker_0").shape == (3, 8)
    run = leadline.open_run(str(tmp_path / "out"))
    gradient = run.tensor("gradient/Net_fc.weight")
    assert gradient.steps() == [0, 1, 3, 6]
    of_truth = np.abs(truth["gradient/Net_fc.weight"][3]).mean()
    assert gradient.statistic("abs_mean", 3) == pytest.approx(of_truth, rel=1e-5)  # what rules read


def test_by_default_only_losses_are_saved(tmp_path: Path) -> None:
    truth = train(smd.Hook(out_dir=str(tmp_path / "out")), sets_modes=False)
    trial = smd.create_trial(tmp_path / "out")
    assert trial.tensor_names() == ["CrossEntropyLoss_output_0"]
    assert_saved(trial, truth, "CrossEntropyLoss_output_0", [0])


def test_collections_have_schedules_and_reductions_of_their_own(tmp_path: Path) -> None:
    hook = smd.Hook(
        out_dir=tmp_path / "out",
        save_config=smd.SaveConfigMode(save_interval=2),
        include_collections=["gradients", ["mine", "fc"]],
    )
    hook.get_collection("gradients").reduction_config = smd.ReductionConfig(
        reductions=["min", "mean", "variance"], abs_reductions=["max", "std"], norms=["l1", "l2"]
    )
    hook.get_collection("mine").include("relu_output")
    hook.get_collection("mine").save_config = smd.SaveConfig(save_interval=100, save_steps=[5])
    hook.add_collection(Collection("fc", tensor_names={"Net_fc.weight"}))
    hook.get_collection("losses").save_config = smd.SaveConfig(end_step=0)
    truth = train(hook, epochs=1, steps=6)
    trial = smd.create_trial(tmp_path / "out")
    assert trial.tensor("relu_output_0").steps(TRAIN) == [0, 5]
    assert trial.tensor_names(collection="mine") == ["relu_output_0"]
    assert_saved(trial, truth, "Net_fc.weight", [0, 2, 4])
    assert not trial.has_tensor("CrossEntropyLoss_output_0")
    gradient = truth["gradient/Net_fc.weight"][4].astype(np.float64)
    saved = trial.tensor("gradient/Net_fc.weight")
    assert saved.steps() == [0, 2, 4]
    expected = {
        ("min", False): gradient.min(),
        ("mean", False): gradient.mean(),
        ("variance", False): gradient.var(),
        ("max", True): np.abs(gradient).max(),
        ("l1", False): np.abs(gradient).sum(),
        ("l2", False): np.sqrt((gradient**2).sum()),
        ("std", True): np.abs(gradient).std(),
    }
    for (name, of_abs), value in expected.items():
        assert saved.reduction_value(4, name, abs=of_abs) == pytest.approx(value, rel=1e-5, abs=1e-9), name


def test_module_tensors_numbers_and_arrays(tmp_path: Path) -> None:
    hook = smd.Hook(out_dir=tmp_path / "out", save_config=smd.SaveConfig(save_interval=2), include_collections=["acts"])
    model, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.get_collection("acts").add_module_tensors(model.relu, inputs=True, outputs=False)
    hook.register_hook(model)
    for mode in (TRAIN, EVAL):
        hook.set_mode(mode)
        model.train(mode is TRAIN)
        for step in range(3):
            loss = loss_of(model(torch.ones(2, 1, 4, 4)), torch.tensor([0, 1]))
            hook.save_scalar("step", torch.tensor(step), sm_metric=True)
            hook.save_tensor("array", np.arange(3) + step, ["default", "mine"])
            hook.record_tensor_value("own", loss)
            if mode is TRAIN:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    hook.close()
    trial = smd.create_trial(tmp_path / "out")
    assert trial.tensor_names(regex="relu") == ["relu_input_0"]
    assert trial.tensor_names(collection="weights") == []
    assert [trial.tensor("scalar/step").value(step).item() for step in range(6)] == [0, 1, 2, 0, 1, 2]
    assert trial.tensor_names(collection="sm_metrics") == ["scalar/step"]
    assert trial.tensor("array").steps() == [0, 2, 3, 5]
    np.testing.assert_array_equal(trial.tensor("array").value(2, mode=EVAL), [2, 3, 4])
    assert trial.tensor_names(collection="default") == trial.tensor_names(collection="mine") == ["array"]
    own, usual = trial.tensor("own_output_0"), trial.tensor("CrossEntropyLoss_output_0")
    assert own.steps() == usual.steps() == [0, 2, 3, 5]
    assert [own.value(step).item() for step in (0, 2)] == [usual.value(step).item() for step in (0, 2)]


def loop(hook: smd.Hook, saves: Callable[[int], None], *, is_after: bool, steps: int = 5) -> None:
    """Train, and call ``saves`` before or after each update."""
    model, loss_of = nn.Sequential(nn.Linear(4, 2)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.register_module(model)
    for step in range(steps):
        loss_of(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        if is_after:
            optimizer.step()
        saves(step)
        if not is_after:
            optimizer.step()
    hook.close()


def saved(folder: Path, name: str) -> dict[int, float]:
    tensor = create_trial(folder).tensor(name)
    return {step: float(np.ravel(tensor.value(step))[0]) for step in tensor.steps()}


@pytest.mark.parametrize("is_after", [False, True])
def test_a_first_save_into_a_collection_discards_nothing(tmp_path: Path, is_after: bool) -> None:
    hook = smd.Hook(out_dir=tmp_path / "t", save_config=smd.SaveConfig(save_interval=2), include_regex="_input_")

    def saves(step: int) -> None:
        hook.save_tensor("mine", np.full(2, step))
        for name in ("a", "b", "c"):
            hook.save_tensor(name, np.full(2, step), collections_to_write=name)
        if step == 3:
            hook.save_tensor("late", np.full(2, step), collections_to_write="late")
        hook.save_scalar("number", step)

    loop(hook, saves, is_after=is_after)
    for name in ("mine", "a", "b", "c"):
        assert saved(tmp_path / "t", name) == {0: 0, 2: 2, 4: 4}
    assert saved(tmp_path / "t", "scalar/number") == {step: step for step in range(5)}
    trial = create_trial(tmp_path / "t")
    assert trial.steps() == list(range(5))
    assert "late" not in trial.tensor_names()
    assert trial.tensor("CrossEntropyLoss_output_0").steps() == [0, 2, 4]  # a new collection captures nothing else
    assert trial.tensor("0_input_0").steps() == [0, 2, 4]


def test_numbers_in_collections_of_numbers_are_numbers_and_arrays_stay_arrays(tmp_path: Path) -> None:
    hook = smd.Hook(out_dir=tmp_path / "t", save_config=smd.SaveConfig(save_interval=2))

    def saves(step: int) -> None:
        hook.save_tensor("accuracy", torch.tensor(step / 10), collections_to_write="metrics")
        hook.save_tensor("penalty", np.float32(step), ["losses", "mine"])
        hook.save_tensor("each", np.full(2, step), collections_to_write="losses")

    loop(hook, saves, is_after=False)
    trial = create_trial(tmp_path / "t")
    assert saved(tmp_path / "t", "accuracy") == pytest.approx({step: step / 10 for step in range(5)})
    assert saved(tmp_path / "t", "penalty") == {0: 0, 2: 2, 4: 4}
    assert saved(tmp_path / "t", "each") == {0: 0, 2: 2, 4: 4}
    assert trial.tensor_names(collection="metrics") == ["accuracy"]
    assert trial.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0", "penalty"]
    assert trial.tensor_names(collection="default") == ["each"]


def test_numbers_keep_the_time_that_the_script_gives_them(tmp_path: Path) -> None:
    hook = smd.Hook(out_dir=tmp_path / "out")
    model, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.register_module(model)
    given = [1795647845.4123323, 1795647846.25, 1795647847.0000002]
    for moment in given:
        loss = loss_of(model(torch.ones(2, 1, 4, 4)), torch.tensor([0, 1]))
        hook.save_scalar("own", 1, timestamp=moment)
        hook.save_scalar("other", 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    hook.close()
    export_trial(leadline.open_run(str(tmp_path / "out")), str(tmp_path / "exported"), Span())
    events = [
        event
        for path in sorted((tmp_path / "exported" / "events").rglob("*.tfevents"))
        for event in FileReader(str(path)).read_events(regex_list=["^scalar"])
    ]
    assert [event["timestamp"] for event in events if event["name"] == "scalar/own"] == given
    assert not {event["timestamp"] for event in events if event["name"] == "scalar/other"} & set(given)


def test_events_of_the_script_are_in_the_timeline(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "out")
    begin = time.time()
    hook.record_trace_events(begin, "Loading", "read", duration=0.25, bytes=7, layout=[1, 2])
    hook.record_trace_events(begin + 1, "Loading", "decode", phase="B", image=3)
    hook.record_trace_events(begin + 3, "Loading", "decode", phase="E", size=4)
    hook.record_trace_events(begin + 5, "Loading", "never begun", phase="E")
    hook.record_trace_events(begin + 6, op_name="checkpoint", phase="i")
    with pytest.raises(SMDebugValueError, match="phase must be one of X, B, E, i, not 'Q'"):
        hook.record_trace_events(begin, "Loading", phase="Q")
    with pytest.raises(SMDebugTypeError, match="numbers of seconds, not 'now'"):
        hook.record_trace_events("now", "Loading")
    train(hook, epochs=1)
    reader = LocalAlgorithmMetricsReader(tmp_path / "out")
    events = [event for event in reader.get_events(0, 2**51) if event.event_phase in ("Loading", "checkpoint")]
    assert [(event.event_phase, event.event_name) for event in events] == [
        ("Loading", "read"),
        ("Loading", "decode"),
        ("checkpoint", "checkpoint"),
    ]
    read, decode, _ = events
    assert read.start_time == pytest.approx(begin * 1e6, abs=1)
    assert [event.duration for event in events] == pytest.approx([250_000, 2_000_000, 0], abs=1)
    assert read.event_args == {"bytes": 7, "layout": "[1, 2]", "step_num": 0}
    assert decode.event_args == {"image": 3, "size": 4, "step_num": 0}


def test_a_collection_that_was_only_named_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(smd.Hook(tmp_path / "out", include_collections=["flatten", "losses"]), epochs=1)
    assert [record.getMessage() for record in caplog.records if "flatten" in record.getMessage()] == [
        "collection flatten selects nothing: give it an include_regex"
    ]
    assert smd.create_trial(tmp_path / "out").tensor_names() == ["CrossEntropyLoss_output_0"]


def test_a_job_of_sagemaker_tells_where_tensorboard_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hook.json"
    path.write_text(json.dumps({"LocalPath": str(tmp_path / "out")}))
    monkeypatch.setenv("TRAINING_JOB_NAME", "job")
    monkeypatch.setenv("TENSORBOARD_CONFIG_FILE_PATH", str(tmp_path / "board.json"))
    assert smd.Hook.create_from_json_file(str(path)).tensorboard_dir is None
    (tmp_path / "board.json").write_text(json.dumps({"LocalPath": "/opt/board"}))
    assert smd.Hook.create_from_json_file(str(path)).tensorboard_dir == "/opt/board"
    (tmp_path / "board.json").write_text("[]")
    with pytest.raises(SMDebugValueError, match="LocalPath is expected"):
        smd.Hook.create_from_json_file(str(path))


def test_a_trial_that_is_opened_during_the_training_has_the_steps_so_far(tmp_path: Path) -> None:
    hook = smd.Hook(out_dir=tmp_path / "out", save_config=smd.SaveConfig(save_interval=1))
    model, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.register_module(model)
    for step in range(20):
        optimizer.zero_grad()
        loss_of(model(torch.ones(2, 1, 4, 4)), torch.tensor([0, 1])).backward()
        optimizer.step()
        if step in (5, 19):
            trial = smd.create_trial(tmp_path / "out")
            assert trial.tensor("CrossEntropyLoss_output_0").steps() == list(range(step + 1))
            assert not trial.loaded_all_steps


def test_a_configuration_file_makes_the_same_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {
        "S3OutputPath": "s3://bucket/prefix",
        "LocalPath": str(tmp_path / "out"),
        "HookParameters": {"save_interval": "3", "train.save_steps": "1,4", "include_workers": "one"},
        "CollectionConfigurations": [
            {"CollectionName": "weights", "CollectionParameters": {"reductions": "mean,abs_max, l2_norm"}},
            {
                "CollectionName": "acts",
                "CollectionParameters": {"include_regex": "relu_output,fc_out{1,1}put", "end_step": "3"},
            },
            {"CollectionName": "losses", "CollectionParameters": None},
        ],
    }
    path = tmp_path / "debughookconfig.json"
    path.write_text(json.dumps(document))
    assert smd.get_hook(create_if_not_exists=True) is None
    monkeypatch.setenv("SMDEBUG_CONFIG_FILE_PATH", str(path))
    monkeypatch.setenv("USE_SMDEBUG", "false")
    assert smd.get_hook(create_if_not_exists=True) is None
    monkeypatch.delenv("USE_SMDEBUG")
    hook = smd.get_hook(create_if_not_exists=True)
    assert hook is not None
    assert smd.get_hook() is hook
    truth = train(hook, epochs=1, steps=6)
    trial = smd.create_trial(tmp_path / "out")
    assert_saved(trial, truth, "CrossEntropyLoss_output_0", [0, 1, 3, 4, 6])
    assert trial.tensor("Net_fc.weight").steps() == [0, 1, 3, 4]
    assert set(trial.tensor("Net_fc.weight").reduction_values(1)) == {("mean", False), ("max", True), ("l2", False)}
    assert_saved(trial, truth, "fc_output_0", [0, 1, 4, 6])
    assert trial.tensor_names(collection="acts") == ["fc_output_0", "relu_output_0"]


def test_invalid_configuration_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "hook.json"

    def problem(document: Any) -> str:
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        with pytest.raises(SMDebugValueError) as raised:
            smd.Hook.create_from_json_file(str(path))
        return str(raised.value)

    assert "is not JSON" in problem("{")
    assert "an object is expected" in problem([])
    assert "save_all must be true or false, not 'maybe'" in problem({"HookParameters": {"save_all": "maybe"}})
    assert "save_interval must be a number, not 'x'" in problem({"HookParameters": {"save_interval": "x"}})
    assert "no CollectionName" in problem({"CollectionConfigurations": [{"CollectionParameters": {}}]})
    named = {"CollectionName": "a", "CollectionParameters": {"reductions": "median"}}
    assert "collection a: no reduction 'median'" in problem({"CollectionConfigurations": [named]})
    with pytest.raises(FileNotFoundError):
        smd.Hook.create_from_json_file(str(tmp_path / "absent.json"))


def test_wrong_use_raises(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="out_dir is a required argument"):
        smd.Hook()
    with pytest.raises(ConfigurationError, match="unknown scheme"):
        smd.Hook("ftp://bucket/prefix")
    with pytest.raises(SMDebugValueError, match="include_workers"):
        smd.Hook(tmp_path / "a", include_workers="some")
    with pytest.raises(SMDebugTypeError, match="save_config"):
        smd.Hook(tmp_path / "a", save_config=10)
    with pytest.raises(SMDebugValueError, match="no norm 'l3'"):
        smd.ReductionConfig(norms=["l3"])
    hook = smd.Hook(tmp_path / "a", include_collections=["empty"])
    hook.get_collection("empty")
    with pytest.raises(SMDebugValueError, match="a mode is one of"):
        hook.set_mode("train")
    with pytest.raises(SMDebugTypeError, match="one number is expected"):
        hook.save_scalar("x", [1, 2])
    with pytest.raises(SMDebugTypeError, match=r"torch\.nn\.Module"):
        hook.register_module("model")
    with pytest.raises(SMDebugError, match="no collection 'other'"):
        hook.get_collection("other", create=False)
    with pytest.raises(InvalidCollectionConfiguration, match="'empty' selects nothing"):
        hook.register_module(Net())
    with pytest.raises(SMDebugRuntimeError, match="a hook has one"):
        hook.register_module(Net())
    assert not (tmp_path / "a").exists()


def test_a_listed_collection_that_only_gets_saved_tensors_need_not_select_any(tmp_path: Path) -> None:
    hook = smd.Hook(tmp_path / "out", include_collections=["own"], save_config=smd.SaveConfig(save_interval=1))
    hook.save_tensor("given", np.arange(3.0), ["own"])
    loop(hook, lambda step: None, is_after=True, steps=2)
    trial = create_trial(str(tmp_path / "out"))
    assert trial.tensor_names(collection="own") == ["given"]
    assert trial.tensor("given").value(0).tolist() == [0, 1, 2]


def test_a_folder_with_an_earlier_training_is_refused_and_an_empty_one_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    hook = smd.Hook(tmp_path / "out")
    assert not has_training_ended(tmp_path / "out")
    train(hook, epochs=1)
    assert has_training_ended(tmp_path / "out")
    with pytest.raises(SMDebugRuntimeError, match="earlier training"):
        smd.Hook(tmp_path / "out")


def test_what_is_left_out_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(smd.Hook(tmp_path / "dry", dry_run=True), epochs=1)
    monkeypatch.setenv("RANK", "1")
    train(smd.Hook(tmp_path / "rank"), epochs=1)
    monkeypatch.delenv("RANK")
    monkeypatch.setenv("LEADLINE_DISABLED", "1")
    train(smd.Hook(tmp_path / "disabled"), epochs=1)
    assert list(tmp_path.iterdir()) == []
