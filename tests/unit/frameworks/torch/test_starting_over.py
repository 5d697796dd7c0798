"""Optimizers that are made anew, parameters that are initialized again, and states that are not loaded."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn

STEPS = 4
Make = Callable[[nn.Module], torch.optim.Optimizer]


def fit(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()


def last(folder: Path, train: Callable[[], Any]) -> dict[str, float]:
    """Return the last value of each check of a training."""
    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    return {name: values[max(values)] for name, values in found.items()}


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters())


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def falling() -> Make:
    """Return what makes an optimizer with a lower rate at each call, as a schedule by hand does."""
    rates = iter([0.01 * 0.9**epoch for epoch in range(8)])
    return lambda model: torch.optim.SGD(model.parameters(), lr=next(rates), momentum=0.9)


@pytest.mark.parametrize(("make", "expected"), [(adam, 3.0), (momentum, 3.0), (falling(), 3.0)])
def test_optimizers_that_are_made_anew_are_counted(tmp_path: Path, make: Make, expected: float) -> None:
    model = nn.Linear(4, 2)

    def train() -> None:
        for _ in range(4):
            optimizer = make(model)
            fit(model, optimizer)

    kind = type(make(model)).__name__
    counts = [value for name, value in last(tmp_path, train).items() if name.startswith(kind) and "made_anew" in name]
    assert max(counts) == expected


def test_they_are_counted_where_only_their_first_steps_are_captured(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)

    def train() -> None:
        for _ in range(6):
            fit(model, adam(model))

    found = scalars(watch(tmp_path, train, f"checks:every={STEPS}"), "checks")
    assert max(value for name, of in found.items() if "made_anew" in name for value in of.values()) >= 3.0


def _without_state(model: nn.Module) -> None:
    for _ in range(4):
        fit(model, torch.optim.SGD(model.parameters(), lr=0.01))


def _with_rates_of_phases(model: nn.Module) -> None:
    for epoch in range(4):
        fit(model, torch.optim.Adam(model.parameters(), lr=10.0 ** -(2 + epoch)))


def _from_the_start(model: nn.Module) -> None:
    state = copy.deepcopy(model.state_dict())
    for _ in range(4):
        model.load_state_dict(state)
        fit(model, adam(model))


def _with_its_state(model: nn.Module) -> None:
    state = None
    for _ in range(4):
        optimizer = adam(model)
        if state is not None:
            optimizer.load_state_dict(state)
        fit(model, optimizer)
        state = optimizer.state_dict()


def _in_turn(model: nn.Module) -> None:
    optimizers = [adam(model) for _ in range(5)]
    for _ in range(STEPS):
        for optimizer in optimizers:
            fit(model, optimizer, 1)


@pytest.mark.parametrize("train", [_without_state, _with_rates_of_phases, _from_the_start, _with_its_state, _in_turn])
def test_optimizers_that_lose_nothing_are_not_counted(tmp_path: Path, train: Callable[[nn.Module], None]) -> None:
    model = nn.Linear(4, 2)
    counts = {name: value for name, value in last(tmp_path, lambda: train(model)).items() if "made_anew" in name}
    assert counts
    assert set(counts.values()) == {0.0}


def test_optimizers_of_many_steps_lose_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(steps: int) -> float:
        model = nn.Linear(4, 2)

        def train() -> None:
            for _ in range(4):
                fit(model, adam(model), steps)

        found = last(tmp_path / str(steps), train)
        return max(value for name, value in found.items() if "made_anew" in name)

    monkeypatch.setattr("leadline.frameworks.torch.capture.continuation._MEMORY", 6)
    assert (counts(5), counts(6)) == (3.0, 0.0)


def test_initializations_between_updates_are_counted_by_parameter(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = adam(model)

    def train() -> None:
        for _ in range(4):
            model[0].reset_parameters()
            nn.init.zeros_(tensor=model[0].bias)  # counts once with the initialization before
            fit(model, optimizer)

    found = last(tmp_path, train)
    again = {name: value for name, value in found.items() if name.endswith("/initialized_again")}
    assert again == {"0.weight/initialized_again": 3.0, "0.bias/initialized_again": 3.0}


def test_initializations_before_a_training_are_none_of_it(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)

    def train() -> None:
        for _ in range(3):
            model.reset_parameters()
            fit(model, adam(model))

    assert not [name for name in last(tmp_path, train) if name.endswith("/initialized_again")]


def test_a_training_with_initializers_is_bit_identical(tmp_path: Path) -> None:
    def weights() -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = adam(model)
        for _ in range(3):
            fit(model, optimizer)
            nn.init.kaiming_uniform_(model.weight)
        return torch.cat([model.weight.detach().flatten(), torch.rand(1)])

    found: list[torch.Tensor] = []
    watch(tmp_path, lambda: found.append(weights()), "checks:every=1")
    assert torch.equal(found[0], weights())


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (("model",), 1.0),
        (("model", "optimizer"), 0.0),
        ((), 0.0),
    ],
)
def test_a_state_that_is_in_the_file_of_the_model_and_not_loaded_is_noticed(
    tmp_path: Path, load: tuple[str, ...], expected: float
) -> None:
    def train() -> None:
        model = nn.Linear(4, 2)
        optimizer = adam(model)
        fit(model, optimizer)
        file = io.BytesIO()
        torch.save({"nested": {"model": model.state_dict()}, "optimizer": [optimizer.state_dict()]}, file)
        file.seek(0)
        loaded = torch.load(file)
        model = nn.Linear(4, 2)
        if "model" in load:
            model.load_state_dict(loaded["nested"]["model"])
        optimizer = adam(model)
        if "optimizer" in load:
            optimizer.load_state_dict(loaded["optimizer"][0])
        del loaded
        fit(model, optimizer)

    found = last(tmp_path, train)
    assert max(value for name, value in found.items() if name.endswith("/state_not_loaded")) == expected


@pytest.mark.parametrize("kind", ["weights alone", "another size"])
def test_a_file_without_a_state_for_this_optimizer_tells_nothing(tmp_path: Path, kind: str) -> None:
    def train() -> None:
        model = nn.Linear(4, 2)
        optimizer = adam(model)
        fit(model, optimizer)
        file = io.BytesIO()
        saved = (
            model.state_dict()
            if kind == "weights alone"
            else {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
        )
        torch.save(saved, file)
        file.seek(0)
        loaded = torch.load(file)
        model = nn.Linear(4, 2)
        model.load_state_dict(loaded.get("model", loaded))
        fit(model, torch.optim.Adam([model.weight] if kind == "another size" else model.parameters()))

    found = last(tmp_path, train)
    assert {value for name, value in found.items() if name.endswith("/state_not_loaded")} == {0.0}


def test_nothing_is_left_in_torch(tmp_path: Path) -> None:
    before = (torch.load, nn.init.zeros_, nn.Module.load_state_dict, torch.optim.lr_scheduler.LRScheduler.__init__)
    model = nn.Linear(4, 2)
    watch(tmp_path, lambda: fit(model, adam(model)), "checks:every=1")
    after = (torch.load, nn.init.zeros_, nn.Module.load_state_dict, torch.optim.lr_scheduler.LRScheduler.__init__)
    assert after == before
