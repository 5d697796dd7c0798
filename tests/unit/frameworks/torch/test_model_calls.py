"""The call of the model is observed without a hook that stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import watch
from test_step_phases import rows, seconds
from torch import nn
from torch.nn.modules import module as torch_module

import leadline.torch


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(
    model: nn.Module, load: Callable[[], torch.Tensor], steps: int = 6, at_call: Callable[[], None] = lambda: None
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        batch = load()
        at_call()
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def sleeping_load() -> torch.Tensor:
    time.sleep(0.02)
    return torch.ones(3, 4)


def test_loading_in_the_loop_is_host_work_and_not_forward(tmp_path: Path) -> None:
    run = watch(tmp_path, lambda: train(network(), sleeping_load))
    assert seconds(run, "host") >= 5 * 0.02 * 0.999
    assert seconds(run, "forward") < seconds(run, "host") / 2
    steps = [row["args"] for row in rows(run, "step") if row["step"] > 0]
    ready = [args.get("host_ready_ns", args.get("host_cpu_ns")) / 1e9 for args in steps]
    assert len(ready) == 5
    assert sum(ready) < seconds(run, "host") / 2


def test_modules_without_parameters_are_not_the_model(tmp_path: Path) -> None:
    augment = nn.Sequential(nn.Dropout(0.1), nn.Flatten())

    def load() -> torch.Tensor:
        batch = augment(torch.ones(3, 4))
        time.sleep(0.02)
        return batch

    run = watch(tmp_path, lambda: train(network(), load))
    assert seconds(run, "host") >= 5 * 0.02 * 0.999


def test_no_hook_is_left_within_the_call_nor_after_the_training(tmp_path: Path) -> None:
    found: list[int] = []

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            found.append(len(torch_module._global_forward_pre_hooks))
            return self.inner(batch)

    watch(tmp_path, lambda: train(Looking(), lambda: torch.ones(3, 4)), "weights:steps=1000000")
    assert found[2:] == [0] * 4  # at the first two steps losses are named, with hooks of their own
    assert len(torch_module._global_forward_pre_hooks) == 0


def test_an_export_does_not_trace_the_hook(tmp_path: Path) -> None:
    model = network()
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", preset=None)
    train(model, lambda: torch.ones(3, 4))
    exported = torch.export.export(model, (torch.ones(3, 4),), strict=True)
    train(model, lambda: torch.ones(3, 4), steps=1)
    assert hook.close()
    assert torch.equal(exported.module()(torch.zeros(3, 4)).isfinite().all(), torch.tensor(True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the imports of torch.compile
@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_compiled_training_has_no_hook(tmp_path: Path, is_compiled: bool) -> None:
    hooks: list[int] = []
    hook = leadline.torch.Hook(out=str(tmp_path), name="run", preset=None)
    if is_compiled:
        torch.compile(network())
    train(network(), sleeping_load, at_call=lambda: hooks.append(len(torch_module._global_forward_pre_hooks)))
    hook.close()
    assert hooks[2:] == [0 if is_compiled else 1] * 4
