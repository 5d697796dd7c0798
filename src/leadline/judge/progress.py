"""The training progress and speed of the workers of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leadline.actions.action import TrainingProgress
from leadline.records.documents import WorkerDocument

_MAX_POINTS: Final = 16


class WorkerProgress:
    """The last steps of each worker, and the speed computed from them."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, int]]] = {}

    def update(self, seen: Mapping[str, Sequence[int]]) -> None:
        """Record the last known step of each worker, and its time."""
        for worker, (step, time_ns) in seen.items():
            points = self._points.setdefault(worker, deque(maxlen=_MAX_POINTS))
            if not points or points[-1][0] < step:
                points.append((step, time_ns))

    def progress(self, workers: Mapping[str, WorkerDocument], gone: Iterable[str]) -> tuple[TrainingProgress, ...]:
        """Return the progress of running workers; a worker's document may know a later step than its stream."""
        running = (set(workers) | set(self._points)) - set(gone)
        return tuple(self._of(worker, workers.get(worker, WorkerDocument())) for worker in sorted(running))

    def _of(self, worker: str, document: WorkerDocument) -> TrainingProgress:
        points = self._points.get(worker) or deque([(-1, 0)])
        (first, first_ns), (last, last_ns) = points[0], points[-1]
        seconds = (last_ns - first_ns) / 1e9 / (last - first) if last > first else 0.0
        reported = (document.step, document.time_ns)
        step, time_ns = max((last, last_ns), reported)
        return TrainingProgress(worker, step, time_ns, max(0.0, seconds))
