"""The number of steps that an optimizer has made: that of its state, or of the trainer that calls it."""

from __future__ import annotations

import math
import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from leadline.frameworks.torch.capture.step_count import _COUNTING, remaining_steps, steps_before

TRAINER = """
import weakref

class Thing:
    pass

class Trainer:
    def train(self, optimizer):
        thing = Thing()
        alive = weakref.ref(thing)
        steps = steps_before(optimizer)
        del thing
        return steps, alive() is None
"""
"""A trainer that also tells whether nothing keeps what a local variable was bound to."""


def stepped(kind: Any, steps: int) -> torch.optim.Optimizer:
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    optimizer: torch.optim.Optimizer = kind([parameter], lr=0.01)
    for _ in range(steps):
        parameter.grad = torch.ones(2, 3)
        if kind is torch.optim.SparseAdam:
            parameter.grad = parameter.grad.to_sparse()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("kind", _COUNTING)
def test_an_optimizer_that_counts_tells_its_steps(kind: Any) -> None:
    assert steps_before(stepped(kind, 0)) == 0
    optimizer = stepped(kind, 7)
    assert steps_before(optimizer) == 7
    loaded = stepped(kind, 0)
    loaded.load_state_dict(optimizer.state_dict())
    assert steps_before(loaded) == 7


def test_nothing_is_known_of_one_that_does_not_count() -> None:
    assert steps_before(stepped(torch.optim.SGD, 3)) is None


def test_one_that_keeps_a_state_and_has_none_has_made_no_step() -> None:
    momentum = partial(torch.optim.SGD, momentum=0.9)
    optimizer = stepped(momentum, 0)
    assert steps_before(optimizer) == 0
    optimizer.load_state_dict(stepped(momentum, 3).state_dict())
    assert steps_before(optimizer) is None


@pytest.mark.parametrize("library", ["transformers", "lightning", "pytorch_lightning"])
def test_the_step_of_the_trainer_among_the_callers_counts_otherwise(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class State:
        global_step = 41

    monkeypatch.setitem(sys.modules, library, ModuleType(library))
    names: dict[str, Any] = {"__name__": f"{library}.trainer", "steps_before": steps_before}
    exec(TRAINER, names)
    derived: Any = type("OurTrainer", (names["Trainer"],), {"__module__": "script"})
    sgd, trainer = stepped(torch.optim.SGD, 1), derived()
    if library == "transformers":
        trainer.state = State()
    else:
        trainer.global_step = State.global_step
    assert trainer.train(sgd) == (41, True)
    assert trainer.train(stepped(torch.optim.Adam, 0)) == (41, True)
    assert trainer.train(stepped(torch.optim.Adam, 7)) == (7, True)


def test_a_trainer_of_the_script_itself_is_not_asked() -> None:
    class Trainer:
        global_step = 3

        def train(self) -> int | None:
            return steps_before(stepped(torch.optim.SGD, 1))

    assert Trainer().train() is None


@pytest.mark.parametrize(
    ("library", "attributes", "expected"),
    [
        ("transformers", {"state": SimpleNamespace(global_step=41, max_steps=100)}, 59),
        ("transformers", {"state": SimpleNamespace(global_step=41, max_steps=-1)}, None),
        ("lightning", {"global_step": 41, "estimated_stepping_batches": 100}, 59),
        ("lightning", {"global_step": 41, "estimated_stepping_batches": math.inf}, None),
        ("lightning", {"global_step": 41}, None),
        ("my_project", {"global_step": 41, "estimated_stepping_batches": 100}, None),
    ],
)
def test_the_plan_of_the_trainer_among_the_callers_is_known(
    library: str, attributes: dict[str, Any], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, ModuleType(library))
    names: dict[str, Any] = {"__name__": f"{library}.trainer", "steps_before": lambda optimizer: remaining_steps()}
    exec(TRAINER, names)
    trainer = names["Trainer"]()
    vars(trainer).update(attributes)
    assert trainer.train(None) == (expected, True)
    assert remaining_steps() is None
