"""Gradients that are clipped before a gradient scaler has divided them by its scale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

STEPS = 4


def found(folder: Path, clip: Callable[[Any, Any, list[Any]], object], **options: Any) -> dict[str, list[float]]:
    """Return the checks of a clip at each step.

    Args:
        clip: Called before ``scaler.step``, with the scaler, the optimizer and the parameters.
    """

    def train() -> None:
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, **options)
        for _ in range(STEPS):
            optimizer.zero_grad()
            scaler.scale((5 + model(torch.ones(8, 4))).square().mean()).backward()
            clip(scaler, optimizer, list(model.parameters()))
            scaler.step(optimizer)
            scaler.update()

    checks = scalars(watch(folder, train, "checks:every=1"), "checks")
    return {
        name: list(values.values())
        for name, values in checks.items()
        if name.startswith("GradScaler/") and "clip" in name
    }


def clip_only(scaler: Any, optimizer: Any, parameters: list[Any]) -> None:
    nn.utils.clip_grad_norm_(parameters, 1.0)


def test_a_clip_of_scaled_gradients_is_known_with_its_limit_norm_and_scale(tmp_path: Path) -> None:
    checks = found(tmp_path, clip_only)
    assert checks["GradScaler/scaled_clip_limit"] == [1.0] * (STEPS - 1)
    assert checks["GradScaler/scale_at_clip"] == [1024.0] * (STEPS - 1)
    assert min(checks["GradScaler/scaled_clip_norm"]) > 1024.0


def test_a_late_division_is_no_better(tmp_path: Path) -> None:
    def clip_first(scaler: Any, optimizer: Any, parameters: list[Any]) -> None:
        clip_only(scaler, optimizer, parameters)
        scaler.unscale_(optimizer)

    assert len(found(tmp_path, clip_first)["GradScaler/scaled_clip_limit"]) == STEPS - 1


@pytest.mark.parametrize("options", [{}, {"enabled": False}])
def test_clips_after_the_division_or_of_others_are_not_noted(tmp_path: Path, options: dict[str, Any]) -> None:
    other = nn.Linear(2, 2)
    other.weight.grad = torch.ones(2, 2)

    def unscale_first(scaler: Any, optimizer: Any, parameters: list[Any]) -> None:
        clip_only(scaler, optimizer, [other.weight])
        scaler.unscale_(optimizer)
        clip_only(scaler, optimizer, parameters)

    assert found(tmp_path / "after", unscale_first, **options) == {}
    assert found(tmp_path / "off", clip_only, enabled=False) == {}
