"""Taking up control requests at step boundaries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from leadline.errors import StopTraining
from leadline.records.request import Acknowledgement, Request
from leadline.store import layout
from leadline.store.control import read_requests, write_acknowledgement

_CHECK_NS: Final = 50_000_000
_CLOCK_TICK_NS: Final = 200_000_000


class ControlWatch:
    """Looks at most every 50 ms whether somebody has asked for something.

    Args:
        run: The run folder, on a local disk.
        worker: Gives the worker's id.
    """

    def __init__(self, run: str, worker: Callable[[], str]) -> None:
        self._folder = os.path.join(run, layout.CONTROL)
        self._run, self._worker = run, worker
        self._checked_ns = 0
        self._changed_ns = -1
        self._known: set[str] = set()
        self._stop: Request | None = None
        self._is_taken = False

    def obey(self, step: int) -> None:
        """Do what is asked at the end of ``step``.

        Raises:
            StopTraining: Somebody asked to stop at this step or before; raised at every boundary from there on.
        """
        now = time.monotonic_ns()
        if now - self._checked_ns > _CHECK_NS:
            self._checked_ns = now
            self._look()
        stop = self._stop
        if stop is not None and (stop.step is None or step >= stop.step):
            if not self._is_taken:
                self._is_taken = True
                self._acknowledge(stop, step)
            raise StopTraining(f"stopped by Leadline at step {step}: {stop.reason}")

    def _look(self) -> None:
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
        except OSError:
            return
        if changed_ns == self._changed_ns and time.time_ns() - changed_ns > _CLOCK_TICK_NS:
            return  # a second change within one tick of the file system's clock would look like none
        self._changed_ns = changed_ns
        for request in read_requests(self._run):
            if request.id not in self._known:
                self._known.add(request.id)
                if request.kind == "stop" and self._stop is None:
                    self._stop = request

    def _acknowledge(self, request: Request, step: int) -> None:
        taken = Acknowledgement(request.id, self._worker(), step, time.time_ns())
        try:
            write_acknowledgement(self._run, taken)
        except OSError:
            return  # a full disk keeps nobody from stopping
