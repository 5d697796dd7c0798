"""Capture of optimizer variables: names, steps and values are correct."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hooked_run import watch
from torch import nn

VARIABLES = ("optimizer_variables:every=1", "optimizer_variables:raw=true,every=1")


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, states: list[dict[Any, Any]] | None = None, steps: int = 3
) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((2, 4), step + 1.0)).pow(2).mean().backward()
        if states is not None:
            state = optimizer.state.get(model[0].weight, {})
            states.append({name: value.clone() for name, value in state.items() if isinstance(value, torch.Tensor)})
        optimizer.step()


@pytest.mark.parametrize("settings", [{"foreach": True}, {"foreach": False}, {"fused": True}, {"amsgrad": True}])
def test_adam_variables_are_those_before_the_update(tmp_path: Path, settings: dict[str, Any]) -> None:
    model, states = small(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **settings)
    run = watch(tmp_path, lambda: train(model, optimizer, states), *VARIABLES)
    variables = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if settings.get("amsgrad") else [])]
    parameters = ["0.bias", "0.weight", "1.bias", "1.weight"]
    expected = [f"AdamW/{variable}/{name}" for variable in variables for name in parameters]
    assert sorted(run.tensor_names(collection="optimizer_variables")) == sorted(expected)
    for variable in variables:
        tensor = run.tensor(f"AdamW/{variable}/0.weight")
        assert tensor.steps() == [1, 2]  # there is none before the first update
        assert "update_ratio" not in tensor.statistic_names()
        for step in (1, 2):
            np.testing.assert_array_equal(tensor.value(step), states[step][variable].numpy())
            assert tensor.statistic("l2", step) == pytest.approx(float(states[step][variable].norm()), rel=1e-5)


def test_momentum_appears_and_state_can_be_loaded(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loaded = torch.optim.SGD(small().parameters(), lr=0.1, momentum=0.9)
    states: list[dict[Any, Any]] = []

    def train_twice() -> None:
        train(model, optimizer, states, steps=2)
        optimizer.load_state_dict(loaded.state_dict())  # without momentum: it starts again
        train(model, optimizer, states, steps=2)

    run = watch(tmp_path, train_twice, *VARIABLES)
    tensor = run.tensor("SGD/momentum_buffer/0.weight")
    assert tensor.steps() == [1, 3]
    for step in (1, 3):
        np.testing.assert_array_equal(tensor.value(step), states[step]["momentum_buffer"].numpy())


def test_an_optimizer_without_variables(tmp_path: Path) -> None:
    model = small()
    run = watch(tmp_path, lambda: train(model, torch.optim.SGD(model.parameters(), lr=0.1)), *VARIABLES)
    assert run.tensor_names() == []
    assert run.has_passed(2)


def test_variables_on_another_device_are_computed_separately(tmp_path: Path) -> None:
    model, states = small(), []
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    optimizer.state[model[1].weight]["elsewhere"] = torch.ones(3, device="meta")
    run = watch(tmp_path, lambda: train(model, optimizer, states), *VARIABLES)
    assert run.tensor("Adagrad/sum/0.weight").steps() == [0, 1, 2]
    assert "Adagrad/elsewhere/1.weight" not in run.tensor_names()
    (document,) = run.worker_documents().values()
    assert any("meta device" in note for note in document.notes)


def test_frozen_parameters_have_no_variables(tmp_path: Path) -> None:
    model = small()
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad])
    run = watch(tmp_path, lambda: train(model, optimizer), *VARIABLES)
    assert {name.rsplit("/", 1)[1] for name in run.tensor_names()} == {"1.weight", "1.bias"}


def test_all_includes_variables_when_requested_by_the_user(tmp_path: Path) -> None:
    model = small()
    run = watch(tmp_path, lambda: train(model, torch.optim.Adam(model.parameters())), "all:every=1")
    assert "Adam/exp_avg/0.weight" in run.tensor_names()
    assert "gradient_norm" in run.tensor_names()
