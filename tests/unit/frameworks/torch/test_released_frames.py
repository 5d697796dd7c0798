"""Nothing of Leadline keeps what a training function has in its variables once it has returned."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hooked_run import watch
from torch import nn

Step = Callable[[nn.Module, torch.optim.Optimizer, torch.Tensor], None]


class Batch:
    """Something that only the variables of a training function refer to."""


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    model(inputs).sum().backward()
    optimizer.step()


def scaled(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(inputs).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def with_closure(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    def closure() -> torch.Tensor:
        loss = model(inputs).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def failing(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    class Failing(torch.amp.GradScaler):
        def _unscale_grads_(self, *args: object, **kwargs: object) -> None:
            raise ValueError("the step fails")

    scaler = Failing("cpu")
    scaler.scale(model(inputs).sum()).backward()
    with pytest.raises(ValueError, match="the step fails"):
        scaler.step(optimizer)


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Keep reference cycles alive."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("train_step", [plain, scaled, with_closure, failing])
def test_variables_die_with_their_function(train_step: Step, tmp_path: Path, no_collection: None) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = []

    def step() -> None:
        batch = Batch()
        batches.append(weakref.ref(batch))
        train_step(model, optimizer, torch.ones(3, 4))

    def train() -> None:
        for _ in range(12):
            step()
        assert [batch() for batch in batches] == [None] * 12

    watch(tmp_path, train)
