"""Batches of ``fit`` at which nothing but losses is captured: they are recorded later, several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from leadline.frameworks.adapter import Score, StepCallbacks
from leadline.frameworks.tensorflow.losses import LossReading, LossTotals
from leadline.instrumentation.guard import Fact, Guard
from leadline.records.phases import COMPUTE


class LossOnlyBatches:
    """Defers the steps with nothing but losses of a call of ``fit``, if each call of the training function is one step.

    Args:
        record_loss: Records the loss of a batch, given the results that Keras tells its callbacks.
    """

    def __init__(
        self,
        callbacks: StepCallbacks,
        guard: Guard,
        totals: LossTotals,
        record_loss: Callable[[LossReading | None, Mapping[str, Any]], None],
    ) -> None:
        self._callbacks = callbacks
        self._guard = guard
        self._totals = totals
        self._record_loss = record_loss
        self._losses = callbacks.facts.of("losses are", is_vital=True)
        self._results = callbacks.facts.of("results of batches are", is_vital=True)
        self._clock, self._deferred = callbacks.cost.clock, callbacks.deferred
        self._function: Any = None
        self._model: Any = None
        self._optimizer: Any = None
        self._made = 0
        self._times: tuple[int, int, int] | None = None
        """Times of the current batch: when Leadline was called, and when the training function began and ended."""

    def follow(self, function: Any, model: Any, optimizer: Any) -> None:
        """Allow the steps after one that was recorded at once to be deferred."""
        self._function, self._model, self._optimizer = function, model, optimizer
        self._callbacks.defer_loss_only_steps()

    def forget(self) -> None:
        """Defer nothing more: the call of ``fit`` has ended, or another method of the model was called in it."""
        self._function = self._model = self._optimizer = self._times = None

    def accepts(self, function: Any) -> bool:
        """Return whether the step that a call of a function makes is deferred."""
        return (
            function is self._function
            and self._deferred.steps > 1
            and self._deferred.thread == get_ident()
            and not self._callbacks.has_request()
            and self._callbacks.ends_steps(self._optimizer)
        )

    def take_made(self) -> int:
        """Return how many calls of the training function were deferred since the last call."""
        made, self._made = self._made, 0
        return made

    def make(self, begun_ns: int, call: Callable[..., Any], *args: Any) -> Any:
        """Call the training function.

        Args:
            begun_ns: When Leadline was called.
        """
        started_ns = self._clock()
        result = call(*args)
        self._made += 1
        self._times = begun_ns, started_ns, self._clock()
        return result

    def end_batch(self, logs: Mapping[str, Any] | None) -> bool:
        """End the step of a batch whose call was deferred; False: it was not."""
        times, self._times = self._times, None
        if times is None:
            return False
        begun_ns, started_ns, ended_ns = times
        now, deferred = self._clock(), self._deferred
        reading = self._guard.call(self._losses.call, self._totals.read, self._model)
        deferred.calls.append((begun_ns, started_ns, self._begin, (self._optimizer,)))
        deferred.calls.append((ended_ns, ended_ns, self._callbacks.timeline.call, (COMPUTE, started_ns)))
        deferred.calls.append((now, self._clock(), self._end, (self._optimizer, reading, logs or {})))
        deferred.steps -= 1
        return True

    def _begin(self, optimizer: Any) -> None:
        self._callbacks.timeline.begin_model()
        self._callbacks.before_update(optimizer)

    def _end(self, optimizer: Any, reading: LossReading | None, logs: Mapping[str, Any]) -> None:
        self._record_loss(reading, logs)
        self._callbacks.record_scores(scores_of(logs, self._results))
        self._callbacks.after_loss_only_update(optimizer)


def scores_of(logs: Mapping[str, Any], fact: Fact) -> list[Score]:
    """Return the results that Keras tells its callbacks; a model of the script may return what is no number.

    Args:
        fact: Reads one.
    """
    read = {name: fact.call(float, value) for name, value in logs.items()}
    return [Score(f"metrics/{name}", value, is_loss=False) for name, value in read.items() if value is not None]
