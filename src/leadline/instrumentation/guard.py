"""The boundary between Leadline and a training: a failure of ours ends a fact, or the capture, and is reported."""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from leadline.instrumentation.timeline.deferred_calls import DeferredCalls

_PACKAGE: Final = __file__.removesuffix("instrumentation/guard.py")
_MAX_CHARACTERS: Final = 300
"""Of the message of a failure."""
P = ParamSpec("P")
R = TypeVar("R")


class Guard:
    """Runs our code inside a training.

    **Fails open** - the first ``Exception`` of ours is passed to ``on_failure``, and every later call does nothing.
    What reads the values of a script is a ``Fact``, whose failure never gets here.

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

    def run_if_free(self, function: Callable[[], object]) -> None:
        """Call a function of ours unless another thread is in one, or calls are deferred."""
        deferred = self.deferred
        if self.lock.acquire(blocking=False):
            try:
                if deferred is None or not deferred.calls:
                    self.call(function)
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
        """Report the first failure, and end the capture."""
        self.failure = describe_error(error)
        self._on_failure(self.failure)


class Fact:
    """Runs what finds one fact about a training from the values that the script gives, inside a call of the guard.

    **Ends alone** - the first ``Exception`` is noted, with the step, and every later call does nothing; everything else
    is captured as before.

    **What matters most does not end** - a vital fact, such as a loss, is absent where it could not be read, and is read
    again at the next step.

    Attributes:
        failure: A description of the first failure; None: there was none.
    """

    __slots__ = ("_is_vital", "_note", "_step", "failure", "name")

    def __init__(
        self, name: str, note: Callable[[str], None], step: Callable[[], int], *, is_vital: bool = False
    ) -> None:
        self.name = name
        self._note = note
        self._step = step
        self._is_vital = is_vital
        self.failure: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is not found any more."""
        return self.failure is not None and not self._is_vital

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Call a function that finds the fact; return None if it fails or the fact has ended."""
        if self.failure is not None and not self._is_vital:
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - part of the guard
            if self.failure is None:
                self.failure = describe_error(error)
                when = f"at step {self._step():,}" if self._is_vital else f"from step {self._step():,} on"
                self._note(f"{self.name} not captured {when}: {self.failure}")
            return None


def failure_of(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> str:
    """Call a function of ours whose failure is a result, and ends nothing else; return the failure, "" without one."""
    try:
        function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - part of the guard
        return describe_error(error)
    return ""


class Facts:
    """The facts of a session, by name.

    Args:
        note: Takes a line about a fact that is not captured.
        step: Returns the current train step.
    """

    def __init__(self, note: Callable[[str], None], step: Callable[[], int]) -> None:
        self._note, self._step = note, step
        self._facts: dict[str, Fact] = {}

    @property
    def failures(self) -> dict[str, str]:
        """The first failure of each fact that has failed."""
        return {fact.name: fact.failure for fact in self._facts.values() if fact.failure is not None}

    def of(self, name: str, *, is_vital: bool = False) -> Fact:
        """Return the fact of that name, with its verb: ``names of losses are``.

        Args:
            is_vital: Whether it is read again after a failure.
        """
        fact = self._facts.get(name)
        if fact is None:
            fact = self._facts[name] = Fact(name, self._note, self._step, is_vital=is_vital)
        return fact


def describe_error(error: Exception) -> str:
    """``ZeroDivisionError: float division by zero (frameworks/torch/naming/loss_calls.py:158)``."""
    from leadline.config.secrets import scrub  # compiles expressions, which no healthy training needs

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE) and frame.filename != __file__]
    place = (own or frames)[-1]
    file = place.filename.rsplit("/leadline/", 1)[-1]
    text = " ".join(scrub(str(error)).split())
    return f"{type(error).__name__}: {text[:_MAX_CHARACTERS]} ({file}:{place.lineno})"
