"""Timing of the waits for the batches of an iterator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leadline.instrumentation.guard import Guard
from leadline.instrumentation.timeline.step_timeline import StepTimeline


class BatchWaits:
    """Reports to a timeline when the training requests a batch, and when it receives it."""

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        self._timeline, self._guard = timeline, guard

    def take(self, take: Callable[[], Any]) -> Any:
        """Return the next batch, which ``take`` returns; it raises ``StopIteration`` if there is none."""
        timeline, guard = self._timeline, self._guard
        if timeline.is_elsewhere():
            return take()
        guard.run(timeline.begin_data)
        timeline.is_loading = True
        try:
            return take()
        except StopIteration:
            guard.run(timeline.exhaust)
            raise
        finally:
            timeline.is_loading = False
            guard.run(timeline.end_data)

    def make_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a method ``__next__`` whose calls are timed."""

        def __next__(iterator: Any) -> Any:
            return self.take(lambda: original(iterator))

        return __next__
