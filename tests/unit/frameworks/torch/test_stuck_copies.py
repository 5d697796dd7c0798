"""Copies of a model that are written and do not move, and those that follow it, or are frozen on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

Update = Callable[[torch.Tensor, torch.Tensor], None]


def mixed_with_itself(slow: torch.Tensor, fast: torch.Tensor) -> None:
    slow.data = 0.98 * slow.data + 0.02 * slow.data


def mixed_in_place(slow: torch.Tensor, fast: torch.Tensor) -> None:
    slow.mul_(0.5).add_(slow.clone())


def averaged(slow: torch.Tensor, fast: torch.Tensor) -> None:
    slow.data = 0.9999 * slow.data + 0.0001 * fast.data


def copied(slow: torch.Tensor, fast: torch.Tensor) -> None:
    slow.copy_(fast)


def frozen(slow: torch.Tensor, fast: torch.Tensor) -> None:
    """A reference that stays as it was made."""


def counts(folder: Path, update: Update) -> list[float]:
    """Return the last check of each copy, after 60 updates with a call of the copy each."""

    def train() -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        target = copy.deepcopy(model)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(60):
            data = torch.randn(16, 8)
            with torch.no_grad():
                goal = target(data)
            optimizer.zero_grad()
            (model(data) - goal - 1).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
                    update(slow, fast)

    checks = scalars(watch(folder, train, "checks:every=10"), "checks")
    return [list(values.values())[-1] for name, values in checks.items() if name.endswith("/stuck_copy")]


@pytest.mark.parametrize("update", [mixed_with_itself, mixed_in_place])
def test_a_copy_that_is_written_and_does_not_move_is_counted(tmp_path: Path, update: Update) -> None:
    (looks,) = counts(tmp_path, update)
    assert looks >= 3


@pytest.mark.parametrize("update", [averaged, copied, frozen])
def test_a_copy_that_follows_the_model_or_is_frozen_is_not(tmp_path: Path, update: Update) -> None:
    assert not any(counts(tmp_path, update))
