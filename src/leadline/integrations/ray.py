"""Ray Train: the workers are watched from within the function that each of them runs."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from leadline.errors import TrainingStopped
from leadline.integrations.watched_loop import note_checkpoint
from leadline.training.session import api
from leadline.training.session.watch import watch

P = ParamSpec("P")
T = TypeVar("T")


def watched(train_loop: Callable[P, T], *, run: str | None = None, **options: Any) -> Callable[P, T | None]:
    """Watch what the workers of a trainer train, all of them in one run: ``TorchTrainer(watched(train_loop), …)``.

    A stop ends the function in each worker at the same step: ``fit`` returns as it would by itself, with the
    checkpoints that were reported until then. What is given to ``ray.train.report`` is captured, and where a checkpoint
    is stored is recorded. How many steps the function plans, Ray does not know.

    Args:
        train_loop: The function.
        run: The run directory, in a folder that all nodes see; default: one in ``./leadline-runs``, named after the
            function and the time.
        options: As for ``leadline.watch``, without ``out`` and ``name``; rules and actions as texts.
    Returns:
        The function to give to the trainer; it returns None after a stop.
    """
    name = f"{getattr(train_loop, '__name__', 'ray-train')}-{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
    place = run or os.path.abspath(os.path.join(os.environ.get("LEADLINE_ROOT") or "leadline-runs", name))

    @functools.wraps(train_loop)
    def loop(*args: P.args, **kwargs: P.kwargs) -> T | None:
        os.environ["LEADLINE_RUN"] = place
        watch(**options)
        try:
            with _noted_checkpoints():
                return train_loop(*args, **kwargs)
        except TrainingStopped:
            return None
        finally:
            api.stop_current()  # Ray kills its workers

    return loop


@contextmanager
def _noted_checkpoints() -> Iterator[None]:
    """Record where the checkpoints are stored that the function reports, within a worker of Ray."""
    ray_train = sys.modules.get("ray.train")
    if ray_train is None:
        yield
        return
    report = ray_train.report

    @functools.wraps(report)
    def noting(metrics: Any, checkpoint: Any = None, *args: Any, **kwargs: Any) -> None:
        report(metrics, checkpoint, *args, **kwargs)
        stored = ray_train.get_checkpoint() if checkpoint is not None else None
        if stored is not None:
            kind = stored.filesystem.type_name
            note_checkpoint(stored.path if kind == "local" else f"{kind}://{stored.path}")

    ray_train.report = noting  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ray_train.report = report  # type: ignore[attr-defined]
