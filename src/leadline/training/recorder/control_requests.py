"""Taking up control requests at step boundaries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from leadline.errors import TrainingStopped
from leadline.records.request import OF_AGENTS, REFUSED, Acknowledgement, Request
from leadline.store.control import RequestReader, write_acknowledgement

_CHECK_NS: Final = 50_000_000


class ControlRequests:
    """Looks at most every 50 ms whether somebody has asked for something.

    **Leaves the agents' requests alone**, and refuses those of a kind that nobody here knows.

    Args:
        run: The run folder, on a local disk.
        worker: Gives the worker's id.
    """

    def __init__(self, run: str, worker: Callable[[], str]) -> None:
        self._run, self._worker = run, worker
        self._inbox = RequestReader(run)
        self._checked_ns = 0
        self._kinds: dict[str, Callable[[Request], None]] = {"stop": self._ask_to_stop}
        self._stop: Request | None = None
        self._is_taken = False

    def serve(self, kind: str, take: Callable[[Request], None]) -> None:
        """Have requests of a kind handed on.

        Args:
            take: Called in the training's thread, so it must not wait for anything; it answers itself.
        """
        self._kinds[kind] = take

    def obey(self, step: int) -> None:
        """Do what is asked at the end of ``step``.

        Raises:
            TrainingStopped: Somebody asked to stop at this step or before; raised at every boundary from there on.
        """
        now = time.monotonic_ns()
        if now - self._checked_ns > _CHECK_NS:
            self._checked_ns = now
            self._look(step)
        stop = self._stop
        if stop is not None and (stop.step is None or step >= stop.step):
            if not self._is_taken:
                self._is_taken = True
                self._acknowledge(stop, step)
            raise TrainingStopped(f"stopped by Leadline at step {step}: {stop.reason}")

    def _look(self, step: int) -> None:
        for request in self._inbox.take():
            if request.kind in self._kinds:
                self._kinds[request.kind](request)
            elif request.kind not in OF_AGENTS:
                self._acknowledge(request, step, f"{REFUSED}no worker knows the request {request.kind!r}")

    def _ask_to_stop(self, request: Request) -> None:
        if self._stop is None:
            self._stop = request

    def _acknowledge(self, request: Request, step: int, outcome: str = "taken") -> None:
        taken = Acknowledgement(request.id, self._worker(), step, time.time_ns(), outcome)
        try:
            write_acknowledgement(self._run, taken)
        except OSError:
            return  # a full disk keeps nobody from stopping
