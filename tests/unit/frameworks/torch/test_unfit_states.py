"""States that models are loaded from, and of which nothing fits."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, width))
        self.head = nn.Linear(width, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(inputs))


State = dict[str, Any]
ENTRIES = len(Classifier().state_dict())
CHECKS = ("entries_of_state", "loaded_entries")
HINTS = ("fitting_without_prefix", "fitting_behind_prefix", "fitting_within_entry")


def renamed(state: State, prefix: str) -> State:
    return {prefix + name: value for name, value in state.items()}


def checks(folder: Path, load: Callable[[nn.Module, State], object]) -> dict[str, float]:
    """Return the checks of the states of a training whose model was loaded from the state of another one."""
    state = Classifier().state_dict()

    def train() -> None:
        model = Classifier()
        load(model, state)
        optimizer = torch.optim.SGD(model.head.parameters(), 0.01)
        model(torch.rand(5, 3)).sum().backward()
        optimizer.step()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    return {name: values[0] for name, values in found.items() if name.endswith((*CHECKS, *HINTS))}


def test_a_prefix_of_a_wrapper_is_found(tmp_path: Path) -> None:
    before, after = [], []

    def load(model: nn.Module, state: State) -> None:
        saved = io.BytesIO()
        torch.save(nn.DataParallel(Classifier()).state_dict(), saved)
        saved.seek(0)
        before.extend(parameter.clone() for parameter in model.parameters())
        model.load_state_dict(torch.load(saved), strict=False)
        after.extend(parameter.clone() for parameter in model.parameters())

    assert checks(tmp_path, load) == {
        "Classifier/entries_of_state": ENTRIES,
        "Classifier/loaded_entries": 0,
        "Classifier/module./fitting_without_prefix": ENTRIES,
    }
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        (lambda state: renamed(Classifier().backbone.state_dict(), ""), {"Classifier/backbone./fitting_behind_prefix"}),
        (lambda state: {"epoch": 3, "weights": state}, {"Classifier/weights/fitting_within_entry"}),
        (lambda state: renamed(Classifier(5).state_dict(), "module."), set()),
        (lambda state: {"encoder.weight": torch.ones(3)}, set()),
    ],
    ids=["a part of the model", "a whole checkpoint", "other shapes", "another model"],
)
def test_states_of_which_nothing_fits(tmp_path: Path, state: Callable[[State], State], hint: set[str]) -> None:
    given: State = {}

    def load(model: nn.Module, other: State) -> None:
        given.update(state(other))
        loaded = model.load_state_dict(given, strict=False)
        assert set(loaded.unexpected_keys) == set(given)

    found = checks(tmp_path, load)
    assert {name for name in found if name.endswith(HINTS)} == hint
    assert found["Classifier/entries_of_state"] == len(given)
    assert found["Classifier/loaded_entries"] == 0


def test_a_part_of_a_trained_model_is_named_by_its_class(tmp_path: Path) -> None:
    found = checks(tmp_path, lambda model, state: model.backbone.load_state_dict(state, strict=False))
    inner = len(Classifier().backbone.state_dict())
    assert found == {
        "Sequential/entries_of_state": ENTRIES,
        "Sequential/loaded_entries": 0,
        "Sequential/backbone./fitting_without_prefix": inner,
    }


def test_a_prefix_that_explains_all_of_the_rest_is_found(tmp_path: Path) -> None:
    def load(model: nn.Module, state: State) -> None:
        inner = {name.removeprefix("backbone."): value for name, value in state.items()}
        model.load_state_dict(inner, strict=False)

    assert checks(tmp_path, load) == {
        "Classifier/entries_of_state": ENTRIES,
        "Classifier/loaded_entries": 2,
        "Classifier/backbone./fitting_behind_prefix": ENTRIES - 2,
    }


def _loaded_later(model: nn.Module, state: State) -> None:
    model.load_state_dict(renamed(state, "module."), strict=False)
    model.backbone.load_state_dict(Classifier().backbone.state_dict())


def _in_parts(model: nn.Module, state: State) -> None:
    model.load_state_dict({name: value for name, value in state.items() if "head" not in name}, strict=False)
    model.load_state_dict({"vision.weight": torch.ones(2, 4)}, strict=False)


def _renaming(model: nn.Module, state: State) -> None:
    def rename(module: nn.Module, given: State, *_: object) -> None:
        for name in list(given):
            given[name.removeprefix("module.")] = given.pop(name)

    model.register_load_state_dict_pre_hook(rename)
    model.load_state_dict(renamed(state, "module."), strict=False)


@pytest.mark.parametrize(
    "load",
    [
        lambda model, state: model.load_state_dict(state),
        lambda model, state: model.load_state_dict(state | renamed(state, "average."), strict=False),
        lambda model, state: model.load_state_dict(
            {name.replace("head", "last.head"): value for name, value in state.items()}, strict=False
        ),
        lambda model, state: model.load_state_dict({}, strict=False),
        lambda model, state: Classifier().load_state_dict(renamed(state, "module."), strict=False),
        _loaded_later,
        _in_parts,
        _renaming,
    ],
    ids=["whole", "with an average", "another head", "empty", "not trained", "loaded later", "in parts", "renaming"],
)
def test_other_states_are_not_counted(tmp_path: Path, load: Callable[[nn.Module, State], object]) -> None:
    assert checks(tmp_path, load) == {}


def test_a_later_training_may_be_shorter_than_the_time_between_two_checks(tmp_path: Path) -> None:
    def step(model: nn.Module) -> None:
        model(torch.rand(5, 3)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.01).step()

    def train() -> None:
        first, second = Classifier(), Classifier()
        step(first)
        second.load_state_dict(renamed(first.state_dict(), "module."), strict=False)
        step(second)

    found = scalars(watch(tmp_path, train, "checks:every=100"), "checks")
    assert found["Classifier/entries_of_state"] == {1: ENTRIES}
