"""Averages of weights that a step computes: kept in the copy or elsewhere, or by nothing; the script is each test."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.check.lost_averages import lost_average
from leadline.frameworks.torch.check.step_tape import TapeMode

Follow = Callable[[nn.Module, nn.Module], object]


def said(follow: Follow) -> str:
    """Return what is said of a step in which a copy follows a model that has moved."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    ema = copy.deepcopy(net).requires_grad_(False)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    mode = TapeMode()
    with mode, torch.no_grad():
        held = follow(ema, net)
    step: Any = SimpleNamespace(trained=set(map(id, net.parameters())), tape=mode.tape)
    found = lost_average(step)
    del held
    return "" if found is None else found.message


def bound_to_a_name(ema: nn.Module, net: nn.Module) -> None:
    for theirs, ours in zip(ema.state_dict().values(), net.state_dict().values(), strict=True):
        theirs = theirs * 0.9 + ours * 0.1


def interpolated(ema: nn.Module, net: nn.Module) -> None:
    for theirs, ours in zip(ema.parameters(), net.parameters(), strict=True):
        torch.lerp(theirs.data, ours.data, 0.1).clone()


def not_loaded(ema: nn.Module, net: nn.Module) -> dict[str, torch.Tensor]:
    state, ours = ema.state_dict(), net.state_dict()
    for name in state:
        state[name] = 0.9 * state[name] + 0.1 * ours[name]
    return state


def loaded(ema: nn.Module, net: nn.Module) -> None:
    ema.load_state_dict(not_loaded(ema, net))


def by_data(ema: nn.Module, net: nn.Module) -> None:
    for theirs, ours in zip(ema.parameters(), net.parameters(), strict=True):
        theirs.data = theirs.data * 0.9 + ours.data * 0.1


def in_place(ema: nn.Module, net: nn.Module) -> None:
    for theirs, ours in zip(ema.parameters(), net.parameters(), strict=True):
        theirs.mul_(0.9).add_(ours, alpha=0.1)


def copied(ema: nn.Module, net: nn.Module) -> None:
    for theirs, ours in zip(ema.parameters(), net.parameters(), strict=True):
        theirs.copy_(theirs * 0.9 + ours * 0.1)


def into_a_third_model(ema: nn.Module, net: nn.Module) -> nn.Module:
    between = copy.deepcopy(net)
    between.load_state_dict(not_loaded(ema, net))
    return between


def distance(ema: nn.Module, net: nn.Module) -> torch.Tensor:
    pairs = zip(ema.parameters(), net.parameters(), strict=True)
    return torch.stack([(ours - theirs).norm() for theirs, ours in pairs]).norm()


def compared(ema: nn.Module, net: nn.Module) -> torch.Tensor:
    pairs = zip(ema.parameters(), net.parameters(), strict=True)
    return torch.stack([((ours + theirs) / 2).norm() for theirs, ours in pairs])


def differences(ema: nn.Module, net: nn.Module) -> list[torch.Tensor]:
    return [ours - theirs for theirs, ours in zip(ema.parameters(), net.parameters(), strict=True)]


@pytest.mark.parametrize("follow", [bound_to_a_name, interpolated, not_loaded])
def test_an_average_that_nothing_keeps_is_named(follow: Follow) -> None:
    assert said(follow) == (
        "the step averages the weights of ema with trained ones and keeps the average nowhere: ema stays as it is"
    )


@pytest.mark.parametrize(
    "follow", [loaded, by_data, in_place, copied, into_a_third_model, distance, compared, differences]
)
def test_an_average_that_is_kept_and_other_arithmetic_are_none(follow: Follow) -> None:
    assert not said(follow)
