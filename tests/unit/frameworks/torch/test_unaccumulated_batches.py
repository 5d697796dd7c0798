"""Updates after each batch, although Accelerate is told to accumulate."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

STATE = SimpleNamespace(sync_gradients=True)


class AcceleratedOptimizer:
    """As that of Accelerate: it steps where gradients are to be synchronized."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.gradient_state = optimizer, STATE

    def step(self) -> None:
        if self.gradient_state.sync_gradients:
            self.optimizer.step()


class Accelerator:
    def __init__(self, steps: int, kind: str) -> None:
        self.gradient_accumulation_steps, self.distributed_type = steps, SimpleNamespace(name=kind)

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def accumulate(self, model: nn.Module) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()


def counted(
    monkeypatch: pytest.MonkeyPatch, folder: Path, how: str = "", *, steps: int = 4, kind: str = "NO"
) -> list[float]:
    """Return the batches with an update of their own at each update, of eight batches.

    Args:
        how: ``accumulate`` enters that, ``by hand`` makes an update after each group of batches.
    """
    for name, member in (("accelerator", Accelerator), ("optimizer", AcceleratedOptimizer)):
        module: Any = ModuleType(f"accelerate.{name}")
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def train() -> None:
        model = nn.Linear(2, 1)
        optimizers = [AcceleratedOptimizer(torch.optim.SGD([weight], 0.01)) for weight in model.parameters()]
        accelerator = Accelerator(steps, kind)
        for batch in range(8):
            with accelerator.accumulate(model) if how == "accumulate" else contextlib.nullcontext():
                accelerator.backward(model(torch.ones(3, 2)).sum())
            if how != "by hand" or batch % steps == steps - 1:
                for optimizer in optimizers:
                    optimizer.step()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    assert Accelerator.backward.__code__.co_filename == AcceleratedOptimizer.step.__code__.co_filename == __file__
    return sorted(set(found.get("Accelerate/unaccumulated_batches", {}).values()))


def test_each_batch_with_an_update_counts_unless_accumulate_is_entered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert counted(monkeypatch, tmp_path / "forgotten") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert counted(monkeypatch, tmp_path / "entered", "accumulate") == []


def test_other_ways_are_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert counted(monkeypatch, tmp_path / "hand", "by hand") == [0]
    assert counted(monkeypatch, tmp_path / "engine", kind="DEEPSPEED") == [0]
    assert counted(monkeypatch, tmp_path / "one", steps=1) == []
