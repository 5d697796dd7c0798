"""The boundary between Leadline and a training: the first failure of ours is reported, and disables capture."""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from leadline.training.timeline.deferred_calls import DeferredCalls

P = ParamSpec("P")
R = TypeVar("R")


class Guard:
    """Runs our code inside a training.

    **Fails open** - the first ``Exception`` of ours is passed to ``on_failure``, and every later call does nothing.

    **One at a time** - calls wait for one another, so that several threads may train at once; functions from ``wrap``
    do not wait.

    **Lets pass** - ``TrainingStopped``, ``KeyboardInterrupt`` and other exits belong to the training.

    **In order** - calls that were deferred are made first.

    Args:
        on_failure: Takes a description of the first failure.

    Attributes:
        deferred: The calls that hooks may defer; None: none are.
    """

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self.failure: str | None = None
        self.deferred: DeferredCalls | None = None
        self.lock = threading.RLock()
        self._on_failure = on_failure

    @property
    def is_open(self) -> bool:
        """Whether nothing of ours has failed so far."""
        return self.failure is None

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Call a function of ours; return None if it fails or something failed before."""
        with self.lock:
            self.stop_deferral()
            return self.call(function, *args, **kwargs)

    def defer(self, deferred: DeferredCalls) -> None:
        """Make these calls before any other."""
        self.deferred = deferred
        deferred.stop = lambda: self.run(lambda: None)

    def stop_deferral(self) -> None:
        """Make the deferred calls, and defer none until the recorder allows it again; only under the lock."""
        deferred = self.deferred
        if deferred is not None and (deferred.steps or deferred.calls):
            deferred.steps = 0
            self.call(deferred.make)

    def make_deferred(self) -> None:
        """Make the deferred calls, unless another thread is in a call of ours."""
        deferred = self.deferred
        if deferred is not None and deferred.calls and self.lock.acquire(blocking=False):
            try:
                self.call(deferred.make)
            finally:
                self.lock.release()

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Call a function of ours like ``run``, but do not wait for other threads."""
        if self.failure is not None:
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the guard is the boundary that catches everything
            self.fail(error)
            return None

    def wrap(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Return the function, guarded."""

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
            return self.call(function, *args, **kwargs)

        return guarded

    def fail(self, error: Exception) -> None:
        """Report the first failure, and disable capture."""
        place = traceback.extract_tb(error.__traceback__)[-1]
        file = place.filename.rsplit("/leadline/", 1)[-1]
        self.failure = f"{type(error).__name__}: {error} ({file}:{place.lineno})"
        self._on_failure(self.failure)
