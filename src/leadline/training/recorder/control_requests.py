"""Handling of control requests at step boundaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from leadline.errors import TrainingStopped
from leadline.instrumentation.step_context import StepContext
from leadline.records import describe
from leadline.records.plan import CaptureItem
from leadline.records.request import (
    AddRules,
    Answer,
    ChangeCapture,
    ControlRequest,
    PlanChange,
    RemoveRules,
    Request,
    Stop,
    UnreadableRequest,
    changed_items,
)
from leadline.store.control import RequestReader, acknowledge

T = TypeVar("T", bound=Request)

_CHECK_NS: Final = 50_000_000
_NEVER_NS: Final = 1 << 62


class ControlRequests:
    """Checks for control requests, at most every 50 ms.

    **Leaves the agents' requests alone**, and refuses those that it cannot read.

    Args:
        end_training: Asks the loop of the training to end after this step; returns whether there is one that can.
        ends_own_loop: Returns whether a stop ends the loop even if the request does not say that the script may finish.
    """

    def __init__(
        self,
        context: StepContext,
        end_training: Callable[[], bool] = lambda: False,
        ends_own_loop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._context, self._end_training, self._ends_own_loop = context, end_training, ends_own_loop
        self._inbox = RequestReader(context.run)
        self._inbox.skip(context.resumption.requests)
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
            TrainingStopped: A stop was requested at this step or before, and the loops of the training cannot be asked
                to end; raised at every later boundary too.
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
            if (stop.let_script_finish or self._ends_own_loop()) and self._end_training():
                return
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


class PlanChanges:
    """Handles the requests that change what a worker captures.

    Args:
        items: The items of the run's capture plan.
        on_change: Called when the items have changed; with ``is_prompt=False`` if they keep to their schedules.
        captures_together: Returns whether all ranks must capture at the same steps. Each rank handles a request at a
            step of its own, so that none is taken then.

    Attributes:
        items: The items that are captured now.
    """

    def __init__(
        self,
        context: StepContext,
        items: tuple[CaptureItem, ...],
        on_change: Callable[..., object],
        captures_together: Callable[[], bool] = lambda: False,
    ) -> None:
        self.items = items
        self._context, self._on_change, self._captures_together = context, on_change, captures_together

    def serve(self, control: ControlRequests) -> None:
        """Register for the requests."""
        control.serve(AddRules, self.handle)
        control.serve(RemoveRules, self.handle)
        control.serve(ChangeCapture, self.handle)

    def replace(self, before: tuple[CaptureItem, ...], after: tuple[CaptureItem, ...]) -> None:
        """Capture items in place of others from now on."""
        kept = tuple(item for item in self.items if item not in before)
        self.items = tuple(dict.fromkeys((*kept, *after)))
        self._on_change(is_prompt=False)

    def handle(self, request: PlanChange) -> None:
        """Capture the items after a request, and acknowledge it."""
        before, after = self.items, changed_items(self.items, request)
        if after != before and self._captures_together():
            answer = Answer("refused", "a job of several JAX processes captures what it was started with")
        else:
            answer = Answer("taken", _describe_change(request, before, after))
            self.items = after
            if after != before:
                self._on_change()
        context = self._context
        acknowledge(context.run, request.id, context.worker, context.train_step - 1, answer)


def _describe_change(request: PlanChange, before: tuple[CaptureItem, ...], after: tuple[CaptureItem, ...]) -> str:
    """Describe what a request has changed: ``also captures abs_mean of gradients``."""
    match request:
        case AddRules():
            new = [item for item in after if item not in before]
            known = "already captured" if request.items else "no further captures needed"
            return f"also captures {_listed(new)}" if new else known
        case RemoveRules():
            gone = [item for item in before if item not in after]
            return f"no longer captures {_listed(gone)}" if gone else "captures the same as before"
        case ChangeCapture():
            return describe.captured(request.collection, request.added, verb="captures")


def _listed(items: Iterable[CaptureItem]) -> str:
    parts = dict.fromkeys(
        f"{', '.join(item.statistics) or 'raw values'} of {item.collection or item.regex}" for item in items
    )
    return "; ".join(parts)
