"""The loops of trainers that run now: asked to end, they save and return as they do by themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

Ask = Callable[[Any], None]


def _end_transformers(trainer: Any) -> None:
    trainer.control.should_training_stop = True


def _end_lightning(trainer: Any) -> None:
    trainer.should_stop = True


TRAINERS: Final[Mapping[tuple[str, str], Ask]] = {
    ("transformers.trainer", "Trainer"): _end_transformers,
    ("lightning.pytorch.trainer.trainer", "Trainer"): _end_lightning,
    ("pytorch_lightning.trainer.trainer", "Trainer"): _end_lightning,
}
"""How a trainer is asked to end after this step, by the module and the name of its class or of one of its bases."""


def end_running_loops() -> bool:
    """Ask the trainers that have called this function, directly or not, to end after this step.

    They are found in the stack of the calling thread: nothing of a trainer has to be replaced for it.

    Returns:
        Whether there are any.
    """
    found = list(_running(sys._getframe()))
    for ask, trainer in found:
        ask(trainer)
    return bool(found)


def _running(frame: FrameType | None) -> Iterator[tuple[Ask, Any]]:
    known = set[int]()
    while frame is not None:
        code = frame.f_code
        if code.co_argcount and code.co_varnames[0] == "self":
            trainer = frame.f_locals.get("self")
            ask = _ask_of(type(trainer))
            if ask is not None and id(trainer) not in known:
                known.add(id(trainer))
                yield ask, trainer
        frame = frame.f_back


def _ask_of(kind: type) -> Ask | None:
    return next((TRAINERS[key] for base in kind.__mro__ if (key := (base.__module__, base.__name__)) in TRAINERS), None)
