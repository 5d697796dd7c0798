"""Trainers that run are found in the stack, also as bases of other classes; others are left alone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from leadline.frameworks.trainer_loops import end_running_loops


def trainer_class(module: str) -> type:
    class Trainer:
        def __init__(self) -> None:
            self.control, self.should_stop = SimpleNamespace(should_training_stop=False), False

        def train(self, step: Callable[[], Any]) -> Any:
            return step()

    Trainer.__module__, Trainer.__qualname__ = module, "Trainer"
    return Trainer


def test_the_trainers_that_run_are_asked_to_end() -> None:
    transformers, lightning = (
        trainer_class("transformers.trainer"),
        trainer_class("lightning.pytorch.trainer.trainer"),
    )
    derived = type("SFTTrainer", (transformers,), {})
    inner, outer, idle = derived(), lightning(), transformers()
    assert outer.train(lambda: inner.train(end_running_loops))
    assert (inner.control.should_training_stop, outer.should_stop) == (True, True)
    assert not idle.control.should_training_stop


def test_other_classes_are_left_alone() -> None:
    own = trainer_class("my_project.training")()
    assert not own.train(end_running_loops)
    assert (own.control.should_training_stop, own.should_stop) == (False, False)
    assert not end_running_loops()
