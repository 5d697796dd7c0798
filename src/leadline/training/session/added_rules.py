"""Captures for rules that are added to a running job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from leadline.records.plan import CaptureItem, item_from_dict
from leadline.records.request import REFUSED, Acknowledgement, Request
from leadline.store.control import write_acknowledgement
from leadline.training.step_context import StepContext


class AddedRuleCaptures:
    """Handles requests of the kind ``rule`` in a worker.

    Args:
        on_change: Called when there are new capture items.

    Attributes:
        items: The items captured beside the plan.
    """

    def __init__(self, context: StepContext, on_change: Callable[[], object]) -> None:
        self.items: tuple[CaptureItem, ...] = ()
        self._context, self._on_change = context, on_change

    def handle(self, request: Request) -> None:
        """Capture the items of a request, and acknowledge it."""
        try:
            items = _items(request.parameters)
        except (TypeError, KeyError, ValueError) as error:
            self._acknowledge(request, f"{REFUSED}invalid request: {error}")
            return
        new = tuple(item for item in items if item not in self.items)
        self.items += new
        if new:
            self._on_change()
        self._acknowledge(request, f"taken: {_describe(new)}" if items else "taken: no further captures needed")

    def _acknowledge(self, request: Request, outcome: str) -> None:
        context = self._context
        acknowledgement = Acknowledgement(request.id, context.worker, context.step - 1, time.time_ns(), outcome)
        try:
            write_acknowledgement(context.run, acknowledgement)
        except OSError:
            return  # a full disk does not prevent the capture


def _items(parameters: dict[str, Any]) -> tuple[CaptureItem, ...]:
    return tuple(item_from_dict(data) for data in parameters.get("items", ()))


def _describe(items: tuple[CaptureItem, ...]) -> str:
    """Describe the items: ``also captures abs_mean of gradients``."""
    parts = dict.fromkeys(
        f"{', '.join(item.statistics) or 'raw values'} of {item.collection or item.regex}" for item in items
    )
    return f"also captures {'; '.join(parts)}" if parts else "already captured"
