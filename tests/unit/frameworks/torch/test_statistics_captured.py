"""All statistics from a real training to the reader, against an independent computation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leadline
import leadline.torch
from leadline.reader.run import Run
from leadline.statistics import arrays
from leadline.statistics.definitions import STATISTICS

STEPS = 3
NUMBERS = (
    *(name for name, statistic in STATISTICS.items() if not statistic.is_vector and statistic.source != "number"),
    "p5",
    "p99.9",
    "p25_exact",
    "within_-0.1_0.1",
    "equals_0",
    "close_0.1_0",
    "close_0_0.001_nan",
)
ARRAYS = ("histogram", "histogram_exact", "unit_activity", "unit_mean", "unit_std", "unit_within_-0.1_0.1")
EVERYTHING = f"statistics={','.join((*NUMBERS, *ARRAYS, 'class_counts', 'confusion', 'value', 'count'))}"


def watch(folder: Path, train: Callable[[], Any], *capture: str) -> Run:
    hook = leadline.torch.Hook(out=str(folder), name="run", preset=None, capture=capture)
    session = hook.session
    assert session is not None
    try:
        train()
    finally:
        is_whole = hook.close()
    assert session.guard.failure is None
    assert is_whole
    return leadline.open_run(hook.run)


class RecordedTraining:
    """A training that records the values of its tensors itself."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
        self.model[0].to(memory_format=torch.channels_last)
        self.expected_tensors: list[dict[str, np.ndarray]] = []

    def train(self) -> None:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for step in range(STEPS):
            inputs = torch.randn(8, 2, 6, 6, generator=torch.Generator().manual_seed(step))
            labels = torch.arange(8) % 3
            optimizer.zero_grad()
            hidden = self.model[:2](inputs)
            loss = nn.functional.cross_entropy(self.model[2:](hidden), labels)
            loss.backward()
            now = {name: parameter.detach().numpy().copy() for name, parameter in self.model.named_parameters()}
            now |= {
                f"gradient/{name}": parameter.grad.numpy().copy() for name, parameter in self.model.named_parameters()
            }
            optimizer.step()
            now |= {
                f"after/{name}": parameter.detach().numpy().copy() for name, parameter in self.model.named_parameters()
            }
            self.expected_tensors.append(now)


def test_every_statistic_of_weights_and_gradients(tmp_path: Path) -> None:
    training = RecordedTraining()
    run = watch(tmp_path, training.train, f"weights:every=1,{EVERYTHING}", f"gradients:every=1,{EVERYTHING}")
    names = [name for name in training.expected_tensors[0] if "weight" in name and "after" not in name]
    assert len(names) == 4
    for name in names:
        tensor = run.tensor(name)
        for step, expected_tensors in enumerate(training.expected_tensors):
            assert tensor.statistic_array("unit_mean", step).shape == (expected_tensors[name].shape[1],)
            for statistic in ARRAYS:
                expected = arrays.compute_vector(statistic, expected_tensors[name])
                np.testing.assert_allclose(tensor.statistic_array(statistic, step), expected, rtol=1e-6, atol=1e-12)
            for statistic in NUMBERS:
                if statistic == "update_ratio" and name.startswith("gradient/"):
                    continue
                before = training.expected_tensors[step - 1][name] if step else None
                after = expected_tensors[name]
                if statistic == "update_ratio":
                    before, after = after, expected_tensors[f"after/{name}"]
                if STATISTICS.get(statistic, STATISTICS["value"]).source == "change" or statistic.startswith("close"):
                    expected = arrays.compute(statistic, after, before) if before is not None else float("nan")
                else:
                    expected = arrays.compute(statistic, after, before)
                captured = tensor.statistic(statistic, step)
                np.testing.assert_allclose(
                    captured, expected, rtol=3e-5, atol=1e-6, err_msg=f"{statistic} of {name} at {step}"
                )
    assert not any(np.isnan(run.tensor("0.weight").statistics("change_l2")["value"].to_numpy()[1:]))


def test_without_memory_for_copies_changes_are_estimated_and_reported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(300, 200, bias=False)
    expected_tensors: list[tuple[np.ndarray, np.ndarray]] = []

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            before = model.weight.detach().numpy().copy()
            optimizer.zero_grad()
            model(torch.randn(8, 300, generator=torch.Generator().manual_seed(step))).pow(2).sum().backward()
            optimizer.step()
            expected_tensors.append((before, model.weight.detach().numpy().copy()))

    hook = leadline.torch.Hook(
        out=str(tmp_path), name="run", preset=None, capture=["weights:every=1,statistics=update_ratio,change_l2"]
    )
    assert hook.session is not None
    hook.session.recorder._updates._device_bytes = 1000
    train()
    assert hook.close()
    run = leadline.open_run(hook.run)
    for step, (before, after) in enumerate(expected_tensors):
        expected = arrays.update_ratio(before, after)
        assert run.tensor("weight").statistic("update_ratio", step) == pytest.approx(expected, rel=0.1)
        if step:
            expected = arrays.change_l2(expected_tensors[step - 1][0], before)
            assert run.tensor("weight").statistic("change_l2", step) == pytest.approx(expected, rel=0.1)
    (worker,) = run.worker_documents().values()
    assert [note.split(":")[0] for note in worker.notes] == [
        "update ratios of 1 tensors are estimated from samples",
        "changes since the previous capture are estimated from samples",
    ]


def test_array_statistics_of_module_inputs_and_outputs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3))
    expected_tensors: list[np.ndarray] = []
    measure = nn.CrossEntropyLoss()

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            inputs = torch.randn(8, 2, 6, 6, generator=torch.Generator().manual_seed(step))
            with torch.no_grad():
                expected_tensors.append(
                    torch.relu(nn.functional.conv2d(inputs, model[0].weight, model[0].bias)).numpy()
                )
            optimizer.zero_grad()
            measure(model(inputs), torch.arange(8) % 3).backward()
            optimizer.step()

    run = watch(
        tmp_path,
        train,
        "relu_output:every=1,statistics=unit_activity,unit_within_0_0.5,change_l2",
        "labels:every=1,statistics=class_counts",
        "predictions:every=1,statistics=class_counts,batch_std,p50",
    )
    activation = run.tensor("1_output_0")
    assert "relu_output" in activation.collections
    for step, values in enumerate(expected_tensors):
        np.testing.assert_allclose(activation.statistic_array("unit_activity", step), (values > 0).mean((0, 2, 3)))
        expected = arrays.compute_vector("unit_within_0_0.5", values)
        np.testing.assert_allclose(activation.statistic_array("unit_within_0_0.5", step), expected)
        if step:
            change = np.linalg.norm(values - expected_tensors[step - 1])
            assert activation.statistic("change_l2", step) == pytest.approx(change, rel=1e-5)
    assert run.tensor("CrossEntropyLoss_input_1").statistic_array("class_counts", 0).tolist() == [3, 3, 2]
    assert run.tensor("CrossEntropyLoss_input_0").statistic_array("class_counts", 0).sum() == 8


@pytest.mark.parametrize("is_function", [True, False])
def test_the_confusion_matrix_of_a_loss_call(tmp_path: Path, is_function: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    labels = torch.tensor([0, 1, 2, 1, -100, 2])
    measure = nn.functional.cross_entropy if is_function else nn.CrossEntropyLoss()
    expected_tensors: list[np.ndarray] = []

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for step in range(STEPS):
            logits = model(torch.randn(6, 4, generator=torch.Generator().manual_seed(step)))
            expected_tensors.append(logits.detach().numpy().argmax(1))
            optimizer.zero_grad()
            measure(logits, labels).backward()
            optimizer.step()

    run = watch(tmp_path, train, "labels:every=1,statistics=confusion")
    (name,) = run.tensor_names(collection="labels")
    for step, predicted in enumerate(expected_tensors):
        expected = np.zeros((3, 3))
        for label, guess in zip(labels.tolist(), predicted, strict=True):
            if label >= 0:
                expected[label, guess] += 1
        assert run.tensor(name).statistic_array("confusion", step).tolist() == expected.tolist()


def test_the_confusion_matrix_of_binary_decisions(tmp_path: Path) -> None:
    model = nn.Linear(2, 2, bias=False)
    labels = torch.tensor([[1.0, 0.0], [1.0, 1.0]])

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with torch.no_grad():
            model.weight.copy_(torch.eye(2))
        optimizer.zero_grad()
        nn.BCEWithLogitsLoss()(model(torch.tensor([[2.0, 1.0], [-1.0, 3.0]])), labels).backward()
        optimizer.step()

    run = watch(tmp_path, train, "labels:every=1,statistics=confusion")
    (name,) = run.tensor_names(collection="labels")
    assert run.tensor(name).statistic_array("confusion", 0).tolist() == [[0, 1], [1, 2]]


def test_a_regression_has_no_confusion_matrix(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        nn.MSELoss()(model(torch.ones(2, 4)), torch.ones(2, 3)).backward()
        optimizer.step()

    run = watch(tmp_path, train, "labels:every=1,statistics=confusion")
    (name,) = run.tensor_names(collection="labels")
    assert run.tensor(name).statistic_names() == ["nonfinite_count"]


def test_a_checksum_shows_the_smallest_change_of_weights(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    model.bias.requires_grad_(False)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()

    run = watch(tmp_path, train, "weights:every=1,statistics=checksum", "biases:every=1,statistics=checksum")
    assert len({run.tensor("weight").statistic("checksum", step) for step in range(STEPS)}) == STEPS
    assert len({run.tensor("bias").statistic("checksum", step) for step in range(STEPS)}) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_reader_computes_the_same_from_raw_tensors(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 5).to(dtype)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            optimizer.zero_grad()
            model(torch.full((2, 6), step + 1.0, dtype=dtype)).sum().backward()
            optimizer.step()

    numbers = [name for name in NUMBERS if name != "update_ratio"]
    captured = watch(tmp_path / "a", train, f"weights:every=1,{EVERYTHING}")
    torch.manual_seed(0)
    model = nn.Linear(6, 5).to(dtype)
    stored = watch(tmp_path / "b", train, "weights:every=1,raw=true")
    one, other = captured.tensor("weight"), stored.tensor("weight")
    for step in range(STEPS):
        for name in numbers:
            if name.startswith(("close", "change")) and not step:
                continue
            exact = 0 if name == "checksum" else 3e-5
            np.testing.assert_allclose(
                one.statistic(name, step), other.statistic(name, step), rtol=exact, atol=exact / 10, err_msg=name
            )
        for name in ARRAYS:
            np.testing.assert_allclose(one.statistic_array(name, step), other.statistic_array(name, step), rtol=1e-6)
