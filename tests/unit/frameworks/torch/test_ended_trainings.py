"""Whether a training is over as another optimizer steps, as ``LatestOptimizer`` sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hooked_run import watch
from torch import nn

from leadline.frameworks.torch.capture.continuation import LatestOptimizer


def sgd(*modules: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD([parameter for module in modules for parameter in module.parameters()], lr=0.1)


def trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> LatestOptimizer:
    """Return what is known after two steps."""
    latest = LatestOptimizer()
    for is_first in (True, False):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        latest.before_update(optimizer)
        optimizer.step()
        latest.after_update(optimizer)
        if is_first:
            latest.is_continued_by(optimizer)
    return latest


def is_left(latest: LatestOptimizer, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> bool:
    loss.backward()
    latest.before_update(optimizer)
    return latest.is_left


def test_a_training_of_another_model_shows_that_the_first_is_over() -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    latest = trained(first, owner := sgd(first))
    assert is_left(latest, second(torch.ones(2, 3)).sum(), sgd(second))
    owner.zero_grad()
    assert is_left(latest, second(torch.ones(2, 3)).sum(), sgd(second))


def test_a_second_stage_with_all_parameters_shows_that_the_first_is_over() -> None:
    head, body = nn.Linear(3, 3), nn.Linear(3, 3)
    latest = trained(head, sgd(head))
    assert is_left(latest, head(body(torch.ones(2, 3))).sum(), sgd(body, head))
    assert not is_left(latest, head(body(torch.ones(2, 3))).sum(), sgd(body))


def test_gradients_that_reach_the_owner_show_that_it_goes_on() -> None:
    critic, generator = nn.Linear(3, 3), nn.Linear(3, 3)
    owner = sgd(critic)
    latest = trained(critic, owner)
    assert not is_left(latest, critic(generator(torch.ones(2, 3))).sum(), sgd(generator))
    latest = trained(critic, owner)
    owner.zero_grad()
    assert not is_left(latest, critic(generator(torch.ones(2, 3))).sum(), sgd(generator))


def test_parameters_that_are_frozen_meanwhile_show_nothing() -> None:
    critic, generator = nn.Linear(3, 3), nn.Linear(3, 3)
    latest = trained(critic, sgd(critic))
    critic.requires_grad_(False)
    assert not is_left(latest, critic(generator(torch.ones(2, 3))).sum(), sgd(generator))


def test_an_optimizer_that_was_made_since_the_last_step_begins_a_training_of_its_own() -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    latest = trained(first, owner := sgd(first))
    first(torch.ones(2, 3)).sum().backward()  # as a closure that is called again for the final loss
    latest.note_made(other := sgd(second))
    assert is_left(latest, first(second(torch.ones(2, 3))).sum(), other)
    first.requires_grad_(False)  # as PEFT freezes what was trained
    assert is_left(latest, first(second(torch.ones(2, 3))).sum(), other)
    first.requires_grad_(True)
    owner.step()
    latest.after_update(owner)
    assert not is_left(latest, first(second(torch.ones(2, 3))).sum(), other)


def test_a_second_optimizer_of_the_same_backward_pass_belongs_to_its_step() -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    owner, other = sgd(first), sgd(second)
    latest = trained(first, owner)
    first(second(torch.ones(2, 3))).sum().backward()
    latest.before_update(owner)
    owner.step()
    latest.after_update(owner)
    latest.before_update(other)
    assert not latest.is_left


@pytest.mark.parametrize("kind", ["closure", "frozen", "through"])
def test_a_training_counts_from_its_first_step_while_the_optimizer_before_is_alive(tmp_path: Path, kind: str) -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    owner = torch.optim.LBFGS(first.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        owner.zero_grad()
        loss = first(torch.ones(2, 3)).square().sum()
        loss.backward()
        return loss

    def train() -> None:
        for _ in range(4):
            owner.step(closure)
        closure()
        first.requires_grad_(kind != "frozen")  # as PEFT freezes what was trained
        other = torch.optim.Adam(second.parameters())
        for _ in range(5):
            other.zero_grad()
            output = second(torch.ones(2, 3))
            (output if kind == "closure" else first(output)).square().sum().backward()
            other.step()

    run = watch(tmp_path, train, preset="light")
    assert (run.steps(), run.trainings()) == (list(range(9)), (0, 4))
