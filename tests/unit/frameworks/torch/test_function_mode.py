"""Capture of activations and losses called as functions, under the calling module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from hooked_run import watch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.act = nn.Linear(5, 5), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.lin(x)) + torch.tanh(x).sigmoid()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.block, self.last = nn.Linear(4, 5), Block(), nn.Linear(5, 3)
        self.recorded: dict[str, np.ndarray[Any, Any]] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if self.training:
            self.recorded = {"relu_input_0": h.detach().numpy().copy()}
        h = functional.relu(h, inplace=True)
        if self.training:
            self.recorded["relu_output_0"] = h.detach().numpy().copy()
        return self.last(functional.relu(self.block(h)))


def train(model: nn.Module, steps: int = 3, after_forward: Any = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        loss = functional.cross_entropy(model(x), torch.arange(6) % 3)
        if after_forward is not None:
            after_forward(step)
        loss.backward()
        optimizer.step()


def test_names_and_collections(tmp_path: Path) -> None:
    run = watch(tmp_path, lambda: train(Net()), "layers:every=1")
    relus = ["relu_output_0", "block.act_output_0", "relu_output_1"]
    assert run.tensor_names(collection="relu_output") == relus
    assert run.tensor_names(collection="tanh_input") == ["block.tanh_input_0"]
    assert run.tensor_names(collection="sigmoid_output") == ["block.sigmoid_output_0"]
    assert run.tensor_names(collection="labels") == ["cross_entropy_input_1"]
    assert run.tensor_names(collection="predictions") == ["cross_entropy_input_0"]


def test_values_are_captured_at_the_call(tmp_path: Path) -> None:
    model = Net()
    run = watch(tmp_path, lambda: train(model, 1), "layers:every=1,raw=true")
    for name, values in model.recorded.items():
        np.testing.assert_array_equal(run.tensor(name).value(0), values)


def test_functions_are_observed_only_at_scheduled_steps(tmp_path: Path) -> None:
    stack_sizes: list[int] = []

    class Recording(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            stack_sizes.append(torch._C._len_torch_function_stack())
            return super().forward(x)

    run = watch(tmp_path, lambda: train(Recording(), 7), "relu_output:every=3")
    assert stack_sizes == [1, 1, 0, 1, 0, 0, 1]  # step 1 is observed to learn the losses' names
    assert run.tensor("relu_output_0").steps() == [0, 3, 6]


def test_modes_of_the_script_are_not_changed(tmp_path: Path) -> None:
    devices: list[str] = []

    def enter_device(step: int) -> None:
        with torch.device("meta"):
            devices.append(torch.empty(1).device.type)
        devices.append(torch.empty(1).device.type)

    watch(tmp_path, lambda: train(Net(), 3, enter_device), "layers:every=1")
    assert devices == ["meta", "cpu"] * 3

    def train_in_device_mode() -> None:
        with torch.device("cpu"):
            train(Net(), 2)
        assert torch._C._len_torch_function_stack() == 0

    watch(tmp_path / "within", train_in_device_mode, "layers:every=1")

    def train_with_overlapping_mode() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        context = torch.device("cpu")
        out = model(torch.ones(6, 4))
        context.__enter__()  # entered between forward and backward pass, left after the step
        out.sum().backward()
        optimizer.step()
        assert torch._C._len_torch_function_stack() == 2
        context.__exit__(None, None, None)
        model(torch.ones(6, 4)).sum().backward()
        optimizer.step()

    watch(tmp_path / "spanning", train_with_overlapping_mode, "layers:every=1")


def test_training_with_function_capture_is_bit_identical(tmp_path: Path) -> None:
    def trained_weights() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(Net(), nn.Dropout(0.5), nn.TransformerEncoderLayer(3, 1, 8, batch_first=True))
        train(model, 6)
        return [parameter.detach().clone() for parameter in model.parameters()]

    without_hook = trained_weights()
    with_hook: list[torch.Tensor] = []
    watch(tmp_path, lambda: with_hook.extend(trained_weights()), "all:every=1,raw=true")
    assert all(torch.equal(a, b) for a, b in zip(without_hook, with_hook, strict=True))
