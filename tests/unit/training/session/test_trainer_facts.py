"""What a trainer tells of itself: its plan, its checkpoints, and a loop that a stop can end."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.records.documents import MAX_CHECKPOINTS, SavedCheckpoint
from leadline.records.names import REMAINING_STEPS
from leadline.training.session.trainer import TrainerFacts


def told(train_steps: int = 0, recorder: Any = None) -> TrainerFacts:
    clock = StepClock(lambda owner: None)
    clock.continue_from(train_steps, {"train": train_steps})
    return TrainerFacts(clock, recorder)


class Recorded:
    """Takes the place of what records checks."""

    def __init__(self, *, captures_checks: bool) -> None:
        self.values: dict[str, object] = {}
        self.captures_checks, self.record_checks = (lambda: captures_checks), self.values.update


@pytest.mark.parametrize("captures_checks", [True, False])
def test_a_plan_counts_from_the_next_step(captures_checks: bool) -> None:
    recorded = Recorded(captures_checks=captures_checks)
    trainer = told(30, lambda: recorded)
    trainer.plan(70)
    assert trainer.planned_steps == 100
    assert recorded.values == ({REMAINING_STEPS: 70.0} if captures_checks else {})


def test_checkpoints_have_the_step_that_they_contain_and_are_bounded() -> None:
    trainer = told(30)
    trainer.note_checkpoint("/out/a")
    trainer.note_checkpoint("/out/b")
    trainer.note_checkpoint("/out/a")
    assert trainer.checkpoints == (SavedCheckpoint(29, "/out/b"), SavedCheckpoint(29, "/out/a"))
    for number in range(MAX_CHECKPOINTS + 5):
        trainer.note_checkpoint(f"/out/{number}")
    assert len(trainer.checkpoints) == MAX_CHECKPOINTS
    assert trainer.checkpoints[0].path == "/out/5"


def test_hyperparameters_are_plain_values() -> None:
    trainer = told()
    trainer.note_hyperparameters({"lr": 0.1, "name": "x", "is_small": True, "nothing": None, "list": [1]})
    assert trainer.hyperparameters == {"lr": 0.1, "name": "x", "is_small": True}


@pytest.fixture
def library() -> ModuleType:
    """A trainer in a package of its own, which calls its callback and then the step, both of which tests give."""
    module = ModuleType("some_trainer.loop")
    exec("def train(begin, step):\n    call(begin)\n    step()\n\ndef call(begin):\n    begin()\n", vars(module))
    return module


def test_a_loop_is_asked_while_it_runs(library: ModuleType) -> None:
    trainer, asked, within = told(), [], []

    def step() -> None:
        within.append(trainer.is_in_loop() and trainer.ask_loop_to_end())

    library.train(lambda: trainer.begin_loop(lambda: asked.append("end"), "some_trainer"), step)
    assert (within, asked, trainer.has_loop()) == ([True], ["end"], True)
    trainer.end_loop()
    assert (trainer.has_loop(), trainer.is_in_loop(), trainer.ask_loop_to_end()) == (False, False, False)


def test_a_loop_that_an_exception_has_ended_is_not_asked(library: ModuleType) -> None:
    trainer, asked = told(), []
    with pytest.raises(ZeroDivisionError):
        library.train(lambda: trainer.begin_loop(lambda: asked.append("end"), "some_trainer"), lambda: sys.exit(1 // 0))
    assert trainer.has_loop()
    assert not trainer.is_in_loop()
    assert not trainer.has_loop()
    assert asked == []


def test_a_loop_of_no_trainer_is_none(library: ModuleType) -> None:
    trainer = told()
    library.train(lambda: trainer.begin_loop(lambda: None, "another"), lambda: None)
    assert not trainer.has_loop()
