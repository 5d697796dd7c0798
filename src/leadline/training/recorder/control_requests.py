"""Handling of control requests at step boundaries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from leadline.errors import TrainingStopped
from leadline.records.request import AGENT_KINDS, REFUSED, Acknowledgement, Request
from leadline.store.control import RequestReader, write_acknowledgement
from leadline.training.step_context import StepContext

_CHECK_NS: Final = 50_000_000


class ControlRequests:
    """Checks for control requests, at most every 50 ms.

    **Leaves the agents' requests alone**, and refuses requests of unknown kinds.
    """

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._inbox = RequestReader(context.run)
        self._checked_ns = 0
        self._handlers: dict[str, Callable[[Request], None]] = {"stop": self._request_stop}
        self._stop: Request | None = None
        self._is_stop_acknowledged = False

    def serve(self, kind: str, handle: Callable[[Request], None]) -> None:
        """Register a handler for requests of a kind.

        Args:
            handle: Called in the training's thread, so it must not block; it acknowledges the request itself.
        """
        self._handlers[kind] = handle

    def handle_pending(self, step: int) -> None:
        """Handle pending requests at the end of ``step``.

        Raises:
            TrainingStopped: A stop was requested at this step or before; raised at every later boundary too.
        """
        now = time.monotonic_ns()
        if now - self._checked_ns > _CHECK_NS:
            self._checked_ns = now
            self._check(step)
        stop = self._stop
        if stop is not None and (stop.step is None or step >= stop.step):
            if not self._is_stop_acknowledged:
                self._is_stop_acknowledged = True
                self._acknowledge(stop, step)
            raise TrainingStopped(f"stopped by Leadline at step {step}: {stop.reason}")

    def _check(self, step: int) -> None:
        for request in self._inbox.take():
            if request.kind in self._handlers:
                self._handlers[request.kind](request)
            elif request.kind not in AGENT_KINDS:
                self._acknowledge(request, step, f"{REFUSED}unknown request kind {request.kind!r}")

    def _request_stop(self, request: Request) -> None:
        if self._stop is None:
            self._stop = request

    def _acknowledge(self, request: Request, step: int, outcome: str = "taken") -> None:
        acknowledgement = Acknowledgement(request.id, self._context.worker, step, time.time_ns(), outcome)
        try:
            write_acknowledgement(self._context.run, acknowledgement)
        except OSError:
            return  # a full disk must not prevent a stop
