"""Whether an optimizer goes on with the training of the one before it."""

from __future__ import annotations

import pytest
import torch

from leadline.frameworks.torch.capture.continuation import LatestOptimizer


def step(latest: LatestOptimizer, optimizer: torch.optim.Optimizer, *, is_first: bool = False) -> bool:
    """Make a step as the hooks see it; return whether the optimizer goes on, if it is its first step that counts."""
    latest.before_update(optimizer)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    latest.after_update(optimizer)
    return is_first and latest.is_continued_by(optimizer)


def trained(model: torch.nn.Module) -> tuple[LatestOptimizer, torch.optim.Optimizer]:
    latest, optimizer = LatestOptimizer(), torch.optim.SGD(model.parameters(), 0.1)
    assert not step(latest, optimizer, is_first=True)
    for _ in range(3):
        step(latest, optimizer)
    return latest, optimizer


def test_an_optimizer_that_is_built_again_goes_on() -> None:
    model = torch.nn.Linear(2, 2)
    latest, _ = trained(model)
    for _ in range(3):
        again = torch.optim.SGD(model.parameters(), 0.01)
        assert step(latest, again, is_first=True)
        step(latest, again)


def test_steps_of_others_and_evaluations_in_between_change_nothing() -> None:
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    latest, _ = trained(model)
    step(latest, torch.optim.SGD(other.parameters(), 0.1))
    model(torch.zeros(1, 2)).sum().backward()
    assert step(latest, torch.optim.SGD(model.parameters(), 0.1), is_first=True)


@pytest.mark.parametrize("change", ["class", "fewer", "model", "reset"])
def test_another_training_begins(change: str) -> None:
    model = torch.nn.Linear(2, 2)
    latest, _ = trained(model)
    if change == "reset":
        model.reset_parameters()
    parameters = {"fewer": [model.weight], "model": list(torch.nn.Linear(2, 2).parameters())}
    kind = torch.optim.Adam if change == "class" else torch.optim.SGD
    assert not step(latest, kind(parameters.get(change, list(model.parameters())), 0.1), is_first=True)


def test_nothing_is_kept_alive() -> None:
    model = torch.nn.Linear(2, 2)
    latest, optimizer = trained(model)
    del model, optimizer
    other = torch.nn.Linear(2, 2)
    assert not step(latest, torch.optim.SGD(other.parameters(), 0.1), is_first=True)
