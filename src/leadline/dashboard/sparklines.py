"""Loss sparklines of runs, cached until the run changes."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

from leadline.analysis.digest import Digest
from leadline.errors import LeadlineError
from leadline.reader.run import Run

POINTS = 60
_MAX_CACHED = 20_000


class LossSparklines:
    """Cache of loss sparklines; reads one run at a time, so that the run list does not slow other pages."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, tuple[int, list[float | None]]] = OrderedDict()
        self._lock = threading.Lock()

    def values(self, path: str, version: int) -> list[float | None]:
        """Return the first loss over steps, at most ``POINTS`` numbers; None where not finite, [] if there is no loss.

        Args:
            version: Differs when the run has changed.
        """
        with self._lock:
            entry = self._cache.get(path)
            if entry is None or entry[0] != version:
                entry = self._cache[path] = (version, _read(path))
            self._cache.move_to_end(path)
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
            return entry[1]


def _read(path: str) -> list[float | None]:
    try:
        digest = Digest(Run(path))
        name, mode = next(iter(digest.scalar_names()))
        values = digest.scalar(name, mode, points=POINTS)["value"].to_pylist()
    except (LeadlineError, OSError, StopIteration):
        return []  # nothing to draw; the run's page shows the error
    return [_round_value(value) for value in values]


def _round_value(value: float | None) -> float | None:
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None
