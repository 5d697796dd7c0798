"""Copies of a model that are evaluated by running averages of the start."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.optim.swa_utils import AveragedModel

Update = Callable[[nn.Module, nn.Module], None]


@torch.no_grad()
def average_weights(average: nn.Module, trained: nn.Module) -> None:
    for slow, fast in zip(average.parameters(), trained.parameters(), strict=True):
        slow.data = 0.9 * slow.data + 0.1 * fast.data


def average_all(average: nn.Module, trained: nn.Module) -> None:
    average_weights(average, trained)
    for slow, fast in zip(average.buffers(), trained.buffers(), strict=True):
        slow.copy_(fast)


def nothing(average: nn.Module, trained: nn.Module) -> None:
    """A reference that stays as it was made."""


def counts(folder: Path, make: Callable[[nn.Module], nn.Module], update: Update) -> dict[str, list[float]]:
    """Return the check after each of four epochs of one step, each followed by an evaluation of the copy."""

    def train() -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2), nn.BatchNorm1d(2))
        average = make(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            model.train()
            optimizer.zero_grad()
            (1 + model(torch.randn(8, 4))).square().mean().backward()
            optimizer.step()
            update(average, model)
            model.eval()
            with torch.no_grad():
                model(torch.randn(8, 4))
                average.eval()(torch.randn(8, 4))

    checks = scalars(watch(folder, train, "checks:every=1"), "checks")
    return {name: list(values.values()) for name, values in checks.items() if name.endswith("/unmoved_averages")}


def test_an_average_of_the_weights_alone_keeps_the_averages_of_the_start(tmp_path: Path) -> None:
    assert counts(tmp_path, copy.deepcopy, average_weights) == {"Sequential/unmoved_averages": [2.0, 2.0]}


@pytest.mark.parametrize("update", [average_all, nothing])
def test_buffers_that_are_copied_and_a_model_of_the_start_are_right(tmp_path: Path, update: Update) -> None:
    assert counts(tmp_path, copy.deepcopy, update) == {}


def test_the_average_of_the_library_copies_buffers(tmp_path: Path) -> None:
    def update(average: nn.Module, trained: nn.Module) -> None:
        assert isinstance(average, AveragedModel)
        average.update_parameters(trained)

    assert counts(tmp_path, AveragedModel, update) == {}
