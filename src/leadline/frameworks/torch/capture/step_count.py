"""The number of steps that an optimizer has made, those before a checkpoint included."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any, Final

import torch

_COUNTING: Final = tuple(
    getattr(torch.optim, name)
    for name in (
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "Adamax",
        "AdamW",
        "ASGD",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SparseAdam",
    )
    if hasattr(torch.optim, name)
)
"""The optimizers that count their steps for each parameter; with an empty state they have made none."""
_MAX_FRAMES: Final = 100
_TRAINERS: Final = ("transformers", "lightning", "pytorch_lightning")


def steps_before(optimizer: Any) -> int | None:
    """Return the number of steps that an optimizer has made before the one that begins; None: it is not known.

    It is that of its state; of one that counts none, such as SGD, or has counted none, that of the trainer of
    Transformers or Lightning which calls it. Otherwise it is 0 for one that keeps a state and has none yet. Called once
    in a process: a count on a device is waited for.
    """
    states, counted = getattr(optimizer, "state", None), counted_steps(optimizer)
    if counted:
        return counted
    of_trainer = _steps_of_trainer()
    if of_trainer is not None:
        return of_trainer
    return 0 if counted == 0 or isinstance(optimizer, _COUNTING) or (_has_momentum(optimizer) and not states) else None


def counted_steps(optimizer: Any) -> int | None:
    """Return the number of steps in the state of an optimizer; None: it has none."""
    states = getattr(optimizer, "state", None)
    entries = [*(states.values() if isinstance(states, Mapping) else ()), *optimizer.param_groups]
    counts = [_number(entry["step"]) for entry in entries if isinstance(entry, Mapping) and "step" in entry]
    return max((count for count in counts if count is not None), default=None)


def keeps_state(optimizer: Any) -> bool:
    """Return whether an optimizer is known to gather a state that its updates depend on: moments, momentum, counts."""
    return isinstance(optimizer, _COUNTING) or "betas" in getattr(optimizer, "defaults", ()) or _has_momentum(optimizer)


def _has_momentum(optimizer: Any) -> bool:
    return any(isinstance(entry, Mapping) and bool(entry.get("momentum")) for entry in optimizer.param_groups)


def _number(step: object) -> int | None:
    if isinstance(step, torch.Tensor):
        return int(step) if step.numel() == 1 and not step.is_meta else None
    return int(step) if isinstance(step, (int, float)) else None


def remaining_steps() -> int | None:
    """Return how many steps the trainer among the callers plans from the one that begins on; None: it is not known.

    The trainer is that of Transformers or Lightning.
    """
    trainer = running_trainer()
    made = _global_step(trainer)
    if made is None:
        return None
    planned = getattr(getattr(trainer, "state", None), "max_steps", None)
    planned = getattr(trainer, "estimated_stepping_batches", None) if planned is None else planned
    if not isinstance(planned, (int, float)) or not math.isfinite(planned) or planned <= made:
        return None
    return int(planned) - made


def _steps_of_trainer() -> int | None:
    """Return the global step of the trainer among the callers; None: there is none."""
    return _global_step(running_trainer())


def running_trainer() -> Any:
    """Return the trainer among the callers; None: there is none."""
    if not any(library in sys.modules for library in _TRAINERS):
        return None
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        if str(frame.f_globals.get("__name__")).split(".")[0] in _TRAINERS and frame.f_code.co_flags & CO_OPTIMIZED:
            caller = _self_of(frame)
            if _global_step(caller) is not None:
                return caller
        frame = frame.f_back
    return None


def _self_of(frame: FrameType) -> Any:
    """Return what the frame of a method has as ``self``; None: nothing.

    Up to Python 3.12 the frame keeps the dict that it returns, with everything that the function had then: without
    ``clear`` a batch and its loss would live until the training ends.
    """
    values = frame.f_locals
    caller = values.get("self")
    if isinstance(values, dict):
        values.clear()
    return caller


def _global_step(caller: object) -> int | None:
    for base in type(caller).__mro__:
        if base.__name__ == "Trainer" and base.__module__.split(".")[0] in _TRAINERS:
            steps = getattr(caller, "global_step", None)
            steps = getattr(getattr(caller, "state", None), "global_step", None) if steps is None else steps
            return steps if isinstance(steps, int) else None
    return None
