"""The rows of metrics of a process that directs a training and computes nothing itself, such as a driver of Ray."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from typing import Final

from leadline.instrumentation.step_context import StepContext
from leadline.instrumentation.timeline.step_progress import StepProgress
from leadline.records.series import StepStamp
from leadline.store.run_state import read_workers
from leadline.training.recorder.scalars import ScalarBuffer
from leadline.training.recorder.step_output import StepOutput

_MODE: Final = "global"
_SECONDS: Final = 1.0
"""The interval at which the documents of the training processes are read."""


class LoggedRows:
    """Writes what a process logs that is connected to Ray and has computed nothing: a row ends when a name comes again.

    A row stands at the train step that the training processes of the run have reached then, as far as their documents
    tell, and at least one after the row before. While they train on, the process says that it has no more for their
    steps: rules need not wait for its next row.
    """

    def __init__(self, context: StepContext, scalars: ScalarBuffer, output: StepOutput, progress: StepProgress) -> None:
        self._context, self._clock = context, context.clock
        self._scalars, self._output, self._progress = scalars, output, progress
        self._names: set[str] = set()
        """The names in the current row."""
        self._has_begun = False
        self._trained, self._read_at = 0, -_SECONDS

    def note(self, names: Collection[str]) -> None:
        """Note that names are about to be logged; end the row if it has one of them."""
        if self._output.last.stamp is not None or self._progress.has_begun or not _is_of_ray():
            return
        if not self._names.isdisjoint(names):
            self._end()
        self._names.update(names)

    def follow(self) -> None:
        """Say that the process has nothing for the steps that others have made meanwhile; in the writer's thread."""
        if self._has_begun and self._output.last.stamp is None:
            step = self._steps_of_others()
            if step > self._clock.step:
                self._complete(step - 1)

    def finish(self) -> None:
        """End the last row."""
        if self._has_begun and self._output.last.stamp is None and self._scalars.has_logged():
            self._end()

    def _end(self) -> None:
        self._has_begun = True
        self._names.clear()
        self._output.open()
        step = max(self._clock.step, self._steps_of_others())
        self._output.put_logged(_stamp(step))
        self._complete(step)

    def _complete(self, step: int) -> None:
        """Mark everything up to a step as written."""
        if self._output.queue is not None:
            self._output.queue.finish_step(_stamp(step))
        self._clock.step = self._clock.finished[_MODE] = step + 1

    def _steps_of_others(self) -> int:
        """Return the number of train steps of the process of the run that has made most, read once in a second."""
        now = time.monotonic()
        if now - self._read_at >= _SECONDS:
            self._read_at = now
            documents = read_workers(self._context.run).values()
            self._trained = max([self._trained, *(document.steps.get("train", 0) for document in documents)])
        return self._trained


def _is_of_ray() -> bool:
    """Return whether this process is connected to a cluster of Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and hasattr(ray, "is_initialized") and bool(ray.is_initialized())


def _stamp(step: int) -> StepStamp:
    return StepStamp(step, _MODE, step, time.time_ns())
