"""Variables whose names promise a copy of the weights; the script is each test itself."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from leadline.frameworks.torch.check.held_copies import live_copy
from leadline.frameworks.torch.check.step_tape import RecordedCall


def step_of(model: nn.Module, *, without_gradients: tuple[nn.Module, ...] = ()) -> Any:
    x = torch.zeros(2, 3)
    calls = [RecordedCall(called, (x,), {}, x, False, None) for called in without_gradients]
    return SimpleNamespace(
        parameters=list(model.parameters()),
        modules=[model, *without_gradients],
        tape=SimpleNamespace(calls=calls),
        name=lambda parameter: "a parameter",
    )


def said(step: Any) -> str:
    found = live_copy(step)
    return "" if found is None else found.message


def test_the_best_weights_are_a_copy_or_those_that_are_trained() -> None:
    net = nn.Linear(3, 2)
    best_weights: Any = copy.deepcopy(net.state_dict())
    assert said(step_of(net)) == ""
    best_weights = net.state_dict()
    assert said(step_of(net)).startswith("best_weights holds the weights that are trained, and no copy of them")
    best_weights = {"epoch": 3, "model": best_weights}
    assert "its weight changes with every step" in said(step_of(net))
    best_weights = {name: value.clone() for name, value in net.state_dict().items()}
    assert said(step_of(net)) == ""
    del best_weights


def test_other_names_may_hold_the_weights() -> None:
    net = nn.Linear(3, 2)
    state = net.state_dict()
    assert said(step_of(net)) == ""
    del state


def test_a_target_network_is_another_model_if_it_gives_the_targets() -> None:
    online = nn.Linear(3, 2)
    target_net = online
    assert said(step_of(online)) == ""  # of two domains one encoder may serve both
    found = said(step_of(online, without_gradients=(target_net,)))
    assert found == "target_net and online are one model, the trained one: target_net never differs from it"
    target_net = copy.deepcopy(online)
    assert said(step_of(online, without_gradients=(target_net,))) == ""


def test_a_model_with_one_name_is_no_copy() -> None:
    def train(model: nn.Module) -> str:
        return said(step_of(model, without_gradients=(model,)))

    teacher = nn.Linear(3, 2)
    assert not train(teacher)
