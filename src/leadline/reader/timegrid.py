"""The times of a run's records, cut into the grid on which rules of time are judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leadline.reader.window import Scan

SECOND_NS: Final = 1_000_000_000
GRID_NS: Final = SECOND_NS
SETTLE_NS: Final = 2 * SECOND_NS
"""A moment is judged when the records are so far past it that little can still come from before it."""


class TimeGrid:
    """Which moments can be judged, and what was the last record before each.

    The moments lie a second apart from the run's start, up to the last record of all (the node's samples are
    the heartbeats that let time pass while the workers are silent).

    Attributes:
        is_overtaken: A record came from before a moment that was given out: begin again with ``restart``.
    """

    def __init__(self, started_ns: int) -> None:
        self.started_ns = started_ns
        self.is_overtaken = False
        self._cells: dict[int, tuple[int, int]] = {}
        self._latest_ns = 0
        self._is_finished = False
        self._next = 1
        self._last: tuple[int, int] | None = None

    def add_heartbeats(self, times_ns: Any) -> None:
        """Let time pass."""
        self._latest_ns = max(self._latest_ns, int(max(times_ns)))

    def add_records(self, times_ns: Any, steps: Any) -> None:
        """What workers wrote, and when."""
        for time_ns, step in zip(times_ns.tolist(), steps.tolist(), strict=True):
            cell = max(0, -(-(time_ns - self.started_ns) // GRID_NS))
            known = self._cells.get(cell)
            if known is None or (time_ns, step) > known:
                self._cells[cell] = (time_ns, step)
                self.is_overtaken = self.is_overtaken or cell < self._next != 1
            self._latest_ns = max(self._latest_ns, time_ns)

    def finish(self) -> None:
        """Nothing more comes: the moments up to the last record can be judged."""
        self._is_finished = True

    def restart(self) -> None:
        """Give out the moments from the first again."""
        self.is_overtaken, self._next, self._last = False, 1, None

    def scans(self) -> Iterator[Scan]:
        """The moments that can be judged and were not given out yet."""
        until_ns = self._latest_ns if self._is_finished else self._latest_ns - SETTLE_NS
        while self.started_ns + self._next * GRID_NS <= until_ns:
            moment_ns = self.started_ns + self._next * GRID_NS
            for cell in (0, self._next) if self._next == 1 else (self._next,):
                self._last = max(self._last or (0, -1), self._cells.get(cell, (0, -1)))
            self._next += 1
            last = self._last if self._last and self._last[0] else None
            yield Scan(moment_ns, self.started_ns, last[0] if last else None, last[1] if last else -1)
