"""How far the workers of a run are, and how fast they go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from leadline.actions.action import TrainingProgress

_PACE_POINTS: Final = 16


class WorkerProgress:
    """How far each worker is, and how fast it goes."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, int]]] = {}

    def see(self, seen: Mapping[str, Sequence[int]]) -> None:
        """Take in the last step known of each worker, and its time."""
        for worker, (step, time_ns) in seen.items():
            points = self._points.setdefault(worker, deque(maxlen=_PACE_POINTS))
            if not points or points[-1][0] < step:
                points.append((step, time_ns))

    def progress(self, workers: Mapping[str, Mapping[str, Any]], gone: Iterable[str]) -> tuple[TrainingProgress, ...]:
        """How far those are that still run; their own documents may know of a later step than their streams."""
        running = (set(workers) | set(self._points)) - set(gone)
        return tuple(self._of(worker, workers.get(worker, {})) for worker in sorted(running))

    def _of(self, worker: str, document: Mapping[str, Any]) -> TrainingProgress:
        points = self._points.get(worker) or deque([(-1, 0)])
        (first, first_ns), (last, last_ns) = points[0], points[-1]
        seconds = (last_ns - first_ns) / 1e9 / (last - first) if last > first else 0.0
        said = (int(document.get("step", -1)), int(document.get("time_ns", 0)))
        step, time_ns = max((last, last_ns), said)
        return TrainingProgress(worker, step, time_ns, max(0.0, seconds))
