"""Another run beside the one that is judged: what a rule that compares the two sees of it."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.reader import liveness
from leadline.reader.feed import NEVER, Feed
from leadline.reader.timegrid import TimeGrid
from leadline.reader.view import Point, View
from leadline.reader.window import Window
from leadline.records.needs import TensorNeed

_Place = tuple[int, str, int]


class OtherRun:
    """A run that is compared with, read as far as it has come.

    Attributes:
        horizon: The last step of which it will say no more.
    """

    def __init__(self, path: str, needs: Iterable[TensorNeed], *, with_arrays: bool) -> None:
        self.horizon = -1
        self._was_over = False
        self._path, self._needs, self._with_arrays = path, tuple(needs), with_arrays
        self._begin()

    def _begin(self) -> None:
        self._feed = Feed(self._path, TimeGrid(0), with_arrays=self._with_arrays)
        self._view = View(self._needs)
        self._waiting: dict[_Place, Point] = {}

    def refresh(self) -> None:
        """Read what came."""
        is_over = liveness.is_over(self._path)
        if is_over and self._was_over:
            return
        self._was_over = is_over
        gone = liveness.finished_workers(self._path, liveness.read_workers(self._path))
        self._feed.refresh(is_over=is_over, gone=gone)
        if self._feed.is_overtaken:
            self._begin()
            self._feed.refresh(is_over=is_over, gone=gone)
        for point in self._feed.points():
            self._waiting[_place(point)] = point
        self.horizon = NEVER if is_over else self._feed.horizon

    def window(self, point: Point) -> Window | None:
        """What it has where the other run has a point; points come in order, and those before are forgotten."""
        for place in [place for place in self._waiting if place[0] < point.step]:
            self._show(self._waiting.pop(place))
        beside = self._waiting.get(_place(point))
        return None if beside is None else self._view.show(beside)

    def _show(self, point: Point) -> None:
        """Let a point that nobody asked for become the past, as it would have."""
        if self._view.show(point) is not None:
            self._view.keep()


def _place(point: Point) -> _Place:
    """The step; between two train steps several ranks' eval steps may share a global one, and count their own."""
    own = min((row.mode_step for row in point.rows), default=0)
    return point.step, point.mode, 0 if point.mode == "train" else own
