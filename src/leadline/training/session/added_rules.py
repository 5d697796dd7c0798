"""Captures for rules that are added to a running job."""

from __future__ import annotations

from collections.abc import Callable

from leadline.records.plan import CaptureItem
from leadline.records.request import AddRules, Answer
from leadline.store.control import acknowledge
from leadline.training.step_context import StepContext


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
        acknowledge(context.run, request.id, context.worker, context.step - 1, Answer("taken", details))


def _describe(items: tuple[CaptureItem, ...]) -> str:
    """Describe the items: ``also captures abs_mean of gradients``."""
    parts = dict.fromkeys(
        f"{', '.join(item.statistics) or 'raw values'} of {item.collection or item.regex}" for item in items
    )
    return f"also captures {'; '.join(parts)}" if parts else "already captured"
