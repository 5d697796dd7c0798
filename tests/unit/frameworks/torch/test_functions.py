"""Activations and losses called as functions are captured under the module in which they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from watched import watch


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
        self.seen: dict[str, np.ndarray[Any, Any]] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if self.training:
            self.seen = {"relu_input_0": h.detach().numpy().copy()}
        h = functional.relu(h, inplace=True)
        if self.training:
            self.seen["relu_output_0"] = h.detach().numpy().copy()
        return self.last(functional.relu(self.block(h)))


def train(model: nn.Module, steps: int = 3, within: Any = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        loss = functional.cross_entropy(model(x), torch.arange(6) % 3)
        if within is not None:
            within(step)
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


def test_values_are_those_of_the_moment(tmp_path: Path) -> None:
    model = Net()
    run = watch(tmp_path, lambda: train(model, 1), "layers:every=1,raw=true")
    for name, values in model.seen.items():
        np.testing.assert_array_equal(run.tensor(name).value(0), values)


def test_what_functions_give_is_seen_at_due_steps_only(tmp_path: Path) -> None:
    stacked: list[int] = []

    class Looking(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            stacked.append(torch._C._len_torch_function_stack())
            return super().forward(x)

    run = watch(tmp_path, lambda: train(Looking(), 7), "relu_output:every=3")
    assert stacked == [1, 1, 0, 1, 0, 0, 1]  # in step 1 to learn what losses are called
    assert run.tensor("relu_output_0").steps() == [0, 3, 6]


def test_the_scripts_own_modes_are_left_as_they_are(tmp_path: Path) -> None:
    devices: list[str] = []

    def look(step: int) -> None:
        with torch.device("meta"):
            devices.append(torch.empty(1).device.type)
        devices.append(torch.empty(1).device.type)

    watch(tmp_path, lambda: train(Net(), 3, look), "layers:every=1")
    assert devices == ["meta", "cpu"] * 3

    def all_within() -> None:
        with torch.device("cpu"):
            train(Net(), 2)
        assert torch._C._len_torch_function_stack() == 0

    watch(tmp_path / "within", all_within, "layers:every=1")

    def spanning() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        context = torch.device("cpu")
        out = model(torch.ones(6, 4))
        context.__enter__()  # opened between the forward pass and the backward, closed behind it
        out.sum().backward()
        optimizer.step()
        assert torch._C._len_torch_function_stack() == 2
        context.__exit__(None, None, None)
        model(torch.ones(6, 4)).sum().backward()
        optimizer.step()

    watch(tmp_path / "spanning", spanning, "layers:every=1")


def test_training_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    def final() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(Net(), nn.Dropout(0.5), nn.TransformerEncoderLayer(3, 1, 8, batch_first=True))
        train(model, 6)
        return [each.detach().clone() for each in model.parameters()]

    bare = final()
    watched: list[torch.Tensor] = []
    watch(tmp_path, lambda: watched.extend(final()), "all:every=1,raw=true")
    assert all(torch.equal(a, b) for a, b in zip(bare, watched, strict=True))
