"""Handling of control requests at step boundaries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from leadline.errors import TrainingStopped
from leadline.records.plan import CaptureItem
from leadline.records.request import AddRules, Answer, ControlRequest, Request, Stop, UnreadableRequest
from leadline.store.control import RequestReader, acknowledge
from leadline.training.step_context import StepContext

T = TypeVar("T", bound=Request)

_CHECK_NS: Final = 50_000_000
_NEVER_NS: Final = 1 << 62


class ControlRequests:
    """Checks for control requests, at most every 50 ms.

    **Leaves the agents' requests alone**, and refuses those that it cannot read.
    """

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._inbox = RequestReader(context.run)
        self._checked_ns = 0
        self._handlers: dict[type[Request], Callable[[Any], None]] = {Stop: self._request_stop}
        self._stop: Stop | None = None
        self._is_stop_acknowledged = False

    def serve(self, kind: type[T], handle: Callable[[T], None]) -> None:
        """Register a handler for requests of a kind.

        Args:
            handle: Called in the training's thread, so it must not block; it acknowledges the request itself.
        """
        self._handlers[kind] = handle

    def has_pending(self) -> bool:
        """Return whether there may be a request that is not handled yet, or a stop."""
        if self._stop is not None:
            return True
        now = time.monotonic_ns()
        if now - self._checked_ns <= _CHECK_NS:
            return False
        if self._inbox.may_have_more():
            return True
        self._checked_ns = now
        return False

    def handle_pending(self, step: int) -> None:
        """Handle pending requests at the end of the global ``step``.

        Raises:
            TrainingStopped: A stop was requested at this step or before; raised at every later boundary too.
        """
        now = time.monotonic_ns()
        if now - self._checked_ns > _CHECK_NS:
            self._checked_ns = now
            self._check()
        stop = self._stop
        if stop is not None and (stop.step is None or step >= stop.step):
            if not self._is_stop_acknowledged:
                self._is_stop_acknowledged = True
                self._acknowledge(stop)
            raise TrainingStopped(f"stopped by Leadline at step {self._context.train_step - 1}: {stop.reason}")

    def close(self) -> None:
        """Obey no further request: the training is over."""
        self._checked_ns, self._stop = _NEVER_NS, None

    def _check(self) -> None:
        for request in self._inbox.take():
            if isinstance(request, UnreadableRequest):
                self._acknowledge(request, Answer("refused", request.problem))
            elif type(request) in self._handlers:
                self._handlers[type(request)](request)

    def _request_stop(self, request: Stop) -> None:
        if self._stop is None:
            self._stop = request

    def _acknowledge(self, request: ControlRequest, answer: Answer | None = None) -> None:
        # a full disk must not prevent a stop
        context = self._context
        acknowledge(context.run, request.id, context.worker, context.train_step - 1, answer or Answer())


class AddedRuleCaptures:
    """Handles the requests for more rules in a worker.

    Args:
        on_change: Called when there are new capture items.

    Attributes:
        items: The items captured beside the plan.
    """

    def __init__(self, context: StepContext, on_change: Callable[[], object]) -> None:
        self.items: tuple[CaptureItem, ...] = ()
        self._context, self._on_change = context, on_change

    def handle(self, request: AddRules) -> None:
        """Capture the items of a request, and acknowledge it."""
        new = tuple(item for item in request.items if item not in self.items)
        self.items += new
        if new:
            self._on_change()
        details = _describe(new) if request.items else "no further captures needed"
        context = self._context
        acknowledge(context.run, request.id, context.worker, context.train_step - 1, Answer("taken", details))


def _describe(items: tuple[CaptureItem, ...]) -> str:
    """Describe the items: ``also captures abs_mean of gradients``."""
    parts = dict.fromkeys(
        f"{', '.join(item.statistics) or 'raw values'} of {item.collection or item.regex}" for item in items
    )
    return f"also captures {'; '.join(parts)}" if parts else "already captured"
