"""Reference run for rules that compare runs."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.reader import liveness
from leadline.reader.feed import MAX_STEP, Feed
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import Point, View
from leadline.reader.window import Window
from leadline.records.needs import TensorNeed
from leadline.store.run_state import read_workers

_Position = tuple[int, str, int]


class OtherRun:
    """A run that another one is compared with, read as it grows.

    Attributes:
        horizon: The last step for which no more data is expected.
    """

    def __init__(self, path: str, needs: Iterable[TensorNeed], *, with_arrays: bool) -> None:
        self.horizon = -1
        self._was_over = False
        self._path, self._needs, self._with_arrays = path, tuple(needs), with_arrays
        self._begin()

    def _begin(self) -> None:
        self._feed = Feed(self._path, TimeGrid(0), with_arrays=self._with_arrays)
        self._view = View(self._needs)
        self._pending: dict[_Position, Point] = {}

    def refresh(self) -> None:
        """Read new data."""
        is_over = liveness.is_over(self._path)
        if is_over and self._was_over:
            return
        self._was_over = is_over
        gone = liveness.finished_workers(self._path, read_workers(self._path))
        self._feed.refresh(is_over=is_over, gone=gone)
        if self._feed.has_late_data:
            self._begin()
            self._feed.refresh(is_over=is_over, gone=gone)
        for point in self._feed.points():
            self._pending[_position(point)] = point
        self.horizon = MAX_STEP if is_over else self._feed.horizon

    def window(self, point: Point) -> Window | None:
        """Return the window of this run at a point of the other run; points are passed in order."""
        for position in [position for position in self._pending if position[0] < point.step]:
            self._skip(self._pending.pop(position))
        counterpart = self._pending.get(_position(point))
        return None if counterpart is None else self._view.select(counterpart)

    def _skip(self, point: Point) -> None:
        """Add a point without a counterpart to the history."""
        if self._view.select(point) is not None:
            self._view.advance()


def _position(point: Point) -> _Position:
    """Return the step, mode and mode step; with several ranks, eval steps can share a global step."""
    mode_step = min((row.mode_step for row in point.rows), default=0)
    return point.step, point.mode, 0 if point.mode == "train" else mode_step
