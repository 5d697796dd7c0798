"""What optimizers keep for each parameter: right names, right steps, right values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from watched import watch

VARIABLES = ("optimizer_variables:every=1", "optimizer_variables:raw=true,every=1")


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, seen: list[dict[Any, Any]] | None = None, steps: int = 3
) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((2, 4), step + 1.0)).pow(2).mean().backward()
        if seen is not None:
            kept = optimizer.state.get(model[0].weight, {})
            seen.append({name: each.clone() for name, each in kept.items() if isinstance(each, torch.Tensor)})
        optimizer.step()


@pytest.mark.parametrize("settings", [{"foreach": True}, {"foreach": False}, {"fused": True}, {"amsgrad": True}])
def test_adam_s_variables_are_those_before_the_update(tmp_path: Path, settings: dict[str, Any]) -> None:
    model, seen = small(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **settings)
    run = watch(tmp_path, lambda: train(model, optimizer, seen), *VARIABLES)
    variables = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if settings.get("amsgrad") else [])]
    parameters = ["0.bias", "0.weight", "1.bias", "1.weight"]
    expected = [f"AdamW/{variable}/{name}" for variable in variables for name in parameters]
    assert sorted(run.tensor_names(collection="optimizer_variables")) == sorted(expected)
    for variable in variables:
        tensor = run.tensor(f"AdamW/{variable}/0.weight")
        assert tensor.steps() == [1, 2]  # before the first update there is none
        assert "update_ratio" not in tensor.statistic_names()
        for step in (1, 2):
            np.testing.assert_array_equal(tensor.value(step), seen[step][variable].numpy())
            assert tensor.statistic("l2", step) == pytest.approx(float(seen[step][variable].norm()), rel=1e-5)


def test_momentum_that_comes_and_a_state_that_is_loaded(tmp_path: Path) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loaded = torch.optim.SGD(small().parameters(), lr=0.1, momentum=0.9)
    seen: list[dict[Any, Any]] = []

    def run_it() -> None:
        train(model, optimizer, seen, steps=2)
        optimizer.load_state_dict(loaded.state_dict())  # without momentum: it begins anew
        train(model, optimizer, seen, steps=2)

    run = watch(tmp_path, run_it, *VARIABLES)
    tensor = run.tensor("SGD/momentum_buffer/0.weight")
    assert tensor.steps() == [1, 3]
    for step in (1, 3):
        np.testing.assert_array_equal(tensor.value(step), seen[step]["momentum_buffer"].numpy())


def test_an_optimizer_that_keeps_nothing(tmp_path: Path) -> None:
    model = small()
    run = watch(tmp_path, lambda: train(model, torch.optim.SGD(model.parameters(), lr=0.1)), *VARIABLES)
    assert run.tensor_names() == []
    assert run.has_passed(2)


def test_variables_on_another_device_are_computed_apart(tmp_path: Path) -> None:
    model, seen = small(), []
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    optimizer.state[model[1].weight]["elsewhere"] = torch.ones(3, device="meta")
    run = watch(tmp_path, lambda: train(model, optimizer, seen), *VARIABLES)
    assert run.tensor("Adagrad/sum/0.weight").steps() == [0, 1, 2]
    assert "Adagrad/elsewhere/1.weight" not in run.tensor_names()
    (document,) = run.worker_documents().values()
    assert any("meta device" in note for note in document["notes"])


def test_frozen_parameters_have_none(tmp_path: Path) -> None:
    model = small()
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad])
    run = watch(tmp_path, lambda: train(model, optimizer), *VARIABLES)
    assert {name.rsplit("/", 1)[1] for name in run.tensor_names()} == {"1.weight", "1.bias"}


def test_all_means_them_where_the_user_says_it(tmp_path: Path) -> None:
    model = small()
    run = watch(tmp_path, lambda: train(model, torch.optim.Adam(model.parameters())), "all:every=1")
    assert "Adam/exp_avg/0.weight" in run.tensor_names()
    assert "gradient_norm" in run.tensor_names()
