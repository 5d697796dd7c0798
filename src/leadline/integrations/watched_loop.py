"""What the callbacks have in common: they watch, tell what the trainer plans and saves, and let a stop end its loop."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Container, Mapping
from typing import Any

import psutil

from leadline.training.session import api
from leadline.training.session.session import Session
from leadline.training.session.watch import watch


class WatchedLoop:
    """The loop of a trainer that calls a callback.

    **Watched once** - under ``leadline run``, or if the script has called ``leadline.watch``, nothing is started.

    Args:
        library: The package of the trainer, whose loop is recognized by it.
        options: As for ``leadline.watch``.

    Attributes:
        should_stop: Whether a rule or a user has requested a stop.
    """

    def __init__(self, library: str, options: Mapping[str, Any]) -> None:
        self._library, self._options = library, dict(options)
        self.should_stop = False

    def begin(self, steps: int | None = None, end: Callable[[], object] | None = None) -> None:
        """Watch from now on; called by the trainer before its first step.

        Args:
            steps: The train steps that it will make; None: it has no plan.
            end: Asks the loop to end after this step, where ``should_stop`` is not enough.
        Raises:
            ConfigurationError: An option is invalid.
        """
        self.should_stop = False
        session = begin_session(self._options)
        if session is None:
            return
        session.guard.run(session.trainer.begin_loop, lambda: self._stop(end), self._library)
        if steps is not None:
            self.plan(steps)

    def plan(self, steps: int) -> None:
        """Tell how many train steps the trainer will make from now on."""
        session = api.current()
        if session is not None and steps >= 0:
            session.guard.run(session.trainer.plan, steps)

    def train_steps(self) -> int:
        """Return the train steps that have ended."""
        session = api.current()
        return session.trainer.steps() if session is not None else 0

    def end(self) -> None:
        """Tell that the loop has ended; what the script does after it is still captured."""
        session = api.current()
        if session is not None:
            session.guard.run(session.trainer.end_loop)

    def _stop(self, end: Callable[[], object] | None) -> None:
        self.should_stop = True
        if end is not None:
            end()


def note_checkpoint(path: str) -> None:
    """Tell where a trainer has saved its weights: a path, or the address of a remote one."""
    session = api.current()
    if session is not None:
        session.guard.run(session.trainer.note_checkpoint, path if "://" in path else os.path.abspath(path))


def noting_saves(save: Callable[..., Any], trained: Container[object], suffix: str = "") -> Callable[..., Any]:
    """Return a method that saves a model and then tells where, if the model is one that is trained.

    Args:
        save: The method of the library; its first argument is the path.
        trained: The models that a callback of ours has seen.
        suffix: What the library appends to a path without one.
    """
    signature = inspect.signature(save)

    @functools.wraps(save)
    def saves(*args: Any, **kwargs: Any) -> Any:
        result = save(*args, **kwargs)
        model, path, *_ = signature.bind(*args, **kwargs).arguments.values()
        if model in trained and isinstance(path, (str, os.PathLike)):
            written = os.fspath(path)
            note_checkpoint(written if os.path.exists(written) else written + suffix)
        return result

    return saves


def begin_session(options: Mapping[str, Any]) -> Session | None:
    """Return the session of this process; begin to watch if there is none.

    Args:
        options: As for ``leadline.watch``.
    Raises:
        ConfigurationError: An option is invalid.
    """
    if api.current() is None and not api.is_disabled():
        if _is_one_of_several() and "LEADLINE_RUN" not in os.environ and not _join_ranks(options):
            api.report_disabled(
                "the ranks may be on several nodes; set LEADLINE_RUN to a folder that all see, or use leadline run"
            )
            return None
        watch(**options)
    return api.current()


def _is_one_of_several() -> bool:
    return os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")


def _join_ranks(options: Mapping[str, Any]) -> bool:
    """Name one run for all ranks that a launcher has started on this node; return whether there are no others.

    A run for each rank could not stop all of them at the same step. Its name says when the launcher was started.
    """
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
        return False
    root = options.get("out") or os.environ.get("LEADLINE_ROOT") or "leadline-runs"
    os.environ["LEADLINE_RUN"] = os.path.abspath(os.path.join(root, options.get("name") or _name_of_launch()))
    return True


def _name_of_launch() -> str:
    """Return a name that only the processes of this launch have.

    torchrun gives a group that it restarts another port; what else starts processes may start many groups.
    """
    started = psutil.Process(os.getppid()).create_time()
    script = os.path.splitext(os.path.basename(sys.argv[0] or "python"))[0]
    port = "" if "TORCHELASTIC_RUN_ID" in os.environ else f"-{os.environ.get('MASTER_PORT', '')}"
    return f"{script}-{time.strftime('%m%d-%H%M%S', time.localtime(started))}-{os.getppid()}{port}".rstrip("-")
