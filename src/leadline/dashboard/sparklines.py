"""The course of a run's loss as a few numbers, kept while the run does not change."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

from leadline.analysis.digest import Digest
from leadline.errors import LeadlineError
from leadline.reader.run import Run

POINTS = 60
_MOST_KEPT = 20_000


class LossSparklines:
    """Losses of runs; one is read at a time, so that a list of runs leaves room for who looks at one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, list[float | None]]] = OrderedDict()
        self._lock = threading.Lock()

    def course(self, path: str, version: int) -> list[float | None]:
        """The first loss over steps, at most ``POINTS`` numbers; None where it was not finite, [] where there is none.

        Args:
            version: Another where the run has changed.
        """
        with self._lock:
            known = self._kept.get(path)
            if known is None or known[0] != version:
                known = self._kept[path] = (version, _read(path))
            self._kept.move_to_end(path)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return known[1]


def _read(path: str) -> list[float | None]:
    try:
        digest = Digest(Run(path))
        name, mode = next(iter(digest.scalar_names()))
        values = digest.scalar(name, mode, points=POINTS)["value"].to_pylist()
    except (LeadlineError, OSError, StopIteration):
        return []  # nothing that could be drawn; the run's own page says why
    return [_short(each) for each in values]


def _short(value: float | None) -> float | None:
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None
