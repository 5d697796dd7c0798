"""How far schedulers have come, and batch normalization that is frozen in part."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.optim import lr_scheduler

STEPS = 6


def checks(folder: Path, make: Callable[[torch.optim.Optimizer], Any], rate: Any = 0.5) -> dict[str, list[float]]:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def train() -> None:
        scheduler = make(optimizer)
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    names = ("rate_share", "schedule_steps", "cosine_progress", "schedulers", "schedule_length", "warm_up_length")
    return {name.partition("/")[2]: list(found[name].values()) for name in found if name.endswith(names)}


def test_a_scheduler_is_followed(tmp_path: Path) -> None:
    found = checks(tmp_path, lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 8))
    assert found == {"rate_share": [step / 8 for step in range(1, 7)], "schedule_steps": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}


def test_a_cycle_is_measured_by_its_largest_rate(tmp_path: Path) -> None:
    found = checks(tmp_path, lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=2.0, total_steps=100))
    assert found["rate_share"][0] == pytest.approx(1 / 25)


def test_a_cosine_is_measured_by_its_length(tmp_path: Path) -> None:
    found = checks(tmp_path, lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=4))
    assert found["cosine_progress"] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]


def _linear(step: int, *, num_warmup_steps: int, num_training_steps: int) -> float:
    return min(step / num_warmup_steps, (num_training_steps - step) / num_training_steps)


def of_library(**given: int) -> Callable[[int], float]:
    """Return a function for LambdaLR as Transformers makes them: of a module of its own, with keywords."""
    function = partial(_linear, **given)
    function.func.__module__ = "transformers.optimization"
    return function


def in_a_closure(num_warmup_steps: int, num_training_steps: int) -> Callable[[int], float]:
    """Return one as Diffusers makes them: defined where the lengths are known."""

    def lr_lambda(step: int) -> float:
        return min(step / num_warmup_steps, (num_training_steps - step) / num_training_steps)

    lr_lambda.__module__ = "diffusers.optimization"
    return lr_lambda


@pytest.mark.parametrize(
    ("make", "length", "warm_up"),
    [
        (lambda it: lr_scheduler.OneCycleLR(it, max_lr=2.0, total_steps=100), 100, None),
        (lambda it: lr_scheduler.PolynomialLR(it, total_iters=30), 30, None),
        (lambda it: lr_scheduler.LinearLR(it, total_iters=20), None, 20),
        (lambda it: lr_scheduler.LinearLR(it, 1.0, 0.0, total_iters=20), 20, None),
        (lambda it: lr_scheduler.LambdaLR(it, of_library(num_warmup_steps=7, num_training_steps=70)), 70, 7),
        (lambda it: lr_scheduler.LambdaLR(it, in_a_closure(7, 70)), 70, 7),
        (lambda it: lr_scheduler.LambdaLR(it, lambda step: 1.0), None, None),
        (lambda it: lr_scheduler.CosineAnnealingLR(it, T_max=40), None, None),
    ],
)
def test_the_lengths_that_a_scheduler_says_are_known(
    make: Callable[[torch.optim.Optimizer], Any], length: int | None, warm_up: int | None, tmp_path: Path
) -> None:
    found = checks(tmp_path, make)
    assert found.get("schedule_length") == (None if length is None else [length] * STEPS)
    assert found.get("warm_up_length") == (None if warm_up is None else [warm_up] * STEPS)


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_the_scheduler_of_a_wrapped_optimizer_is_that_of_the_optimizer(tmp_path: Path) -> None:
    class Wrapped(torch.optim.Optimizer):
        """Stands before an optimizer, as Accelerate's does."""

        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer, self.param_groups, self.defaults = optimizer, optimizer.param_groups, optimizer.defaults

        def step(self, closure: Any = None) -> None:
            self.optimizer.step(closure)

    found = checks(tmp_path, lambda optimizer: lr_scheduler.PolynomialLR(Wrapped(optimizer), total_iters=30))
    assert found["schedule_length"] == [30.0] * STEPS


def test_schedulers_in_sequence_have_no_common_count(tmp_path: Path) -> None:
    def make(optimizer: torch.optim.Optimizer) -> Any:
        first = lr_scheduler.LinearLR(optimizer, total_iters=2)
        second = lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
        return lr_scheduler.SequentialLR(optimizer, [first, second], [2])

    found = checks(tmp_path, make)
    assert set(found) == {"rate_share", "cosine_progress", "schedulers"}
    assert max(found["cosine_progress"]) < 1
    assert max(found["schedulers"]) == 1.0


class Several:
    """Schedulers of one optimizer, of which some make steps.

    Args:
        at_once: Whether all of them do; else the first one does at the first three steps, and then the second.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, *, at_once: bool) -> None:
        self.schedulers = [lr_scheduler.ExponentialLR(optimizer, gamma) for gamma in (0.9, 0.8)]
        self.at_once, self.steps = at_once, 0

    def step(self) -> None:
        self.steps += 1
        for scheduler in self.schedulers if self.at_once else self.schedulers[self.steps > 3 :][:1]:
            scheduler.step()


@pytest.mark.parametrize("at_once", [True, False])
def test_schedulers_that_make_steps_together_are_counted(tmp_path: Path, at_once: bool) -> None:
    found = checks(tmp_path, lambda optimizer: Several(optimizer, at_once=at_once))
    assert found["schedulers"] == [0.0, *[2.0 if at_once else 1.0] * 5]


@pytest.mark.parametrize("rate", [0.5, torch.tensor(0.5)])
def test_without_a_scheduler_there_is_nothing(tmp_path: Path, rate: Any) -> None:
    assert checks(tmp_path, lambda optimizer: None, rate) == {}


def test_a_rate_that_is_a_tensor_is_not_read(tmp_path: Path) -> None:
    found = checks(tmp_path, lambda optimizer: lr_scheduler.StepLR(optimizer, 2), torch.tensor(0.5))
    assert set(found) == {"schedule_steps"}


# --- frozen batch normalization ------------------------------------------------------------------------------


def frozen(
    folder: Path, prepare: Callable[[nn.Sequential], None], each: Callable[[nn.Sequential], None]
) -> list[float]:
    """Return the frozen batch normalizations in training mode, by step."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    prepare(model)

    def train() -> None:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            each(model)
            optimizer.step()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    return list(found["Sequential/frozen_batch_norms"].values())


def test_frozen_batch_normalization_in_training_mode_is_counted(tmp_path: Path) -> None:
    assert frozen(tmp_path, lambda model: model[1].requires_grad_(False), lambda model: None) == [0.0, 1.0, 1.0, 1.0]


def _in_evaluation_mode(model: nn.Sequential) -> None:
    model[1].requires_grad_(False)
    model[1].eval()


def _trained(model: nn.Sequential) -> None:
    pass


@pytest.mark.parametrize("prepare", [_in_evaluation_mode, _trained])
def test_batch_normalization_as_it_is_meant_is_not_counted(
    tmp_path: Path, prepare: Callable[[nn.Sequential], None]
) -> None:
    assert frozen(tmp_path, prepare, lambda model: None) == [0.0] * 4


@pytest.mark.parametrize("way", ["in place", "data", "data in place"])
def test_weights_that_are_averages_of_others_are_not_frozen(tmp_path: Path, way: str) -> None:
    def average(model: nn.Sequential) -> None:
        if way == "in place":
            with torch.no_grad():
                model[1].weight.mul_(0.9)
        elif way == "data":
            model[1].weight.data = 0.9 * model[1].weight.data
        else:
            model[1].weight.data.mul_(0.9)

    assert frozen(tmp_path, lambda model: model[1].requires_grad_(False), average) == [0.0] * 4


def test_what_is_frozen_in_turn_is_not_frozen(tmp_path: Path) -> None:
    def take_turns(model: nn.Sequential) -> None:
        model[1].requires_grad_(not model[1].weight.requires_grad)

    assert frozen(tmp_path, lambda model: None, take_turns) == [0.0] * 4
