"""What rules need that a running job was given: captured from the step after they were asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from leadline.records.plan import CaptureItem, item_from_dict
from leadline.records.request import REFUSED, Acknowledgement, Request
from leadline.store.control import write_acknowledgement


class AddedRuleCaptures:
    """Takes up requests of the kind ``rule``, as far as they are the worker's.

    Args:
        run: The run folder.
        worker: Gives the worker's id.
        step: Gives the step under way.
        follow: Called when more is to be captured.
    Attributes:
        items: What is captured beside the plan.
    """

    def __init__(
        self, run: str, *, worker: Callable[[], str], step: Callable[[], int], follow: Callable[[], object]
    ) -> None:
        self.items: tuple[CaptureItem, ...] = ()
        self._run, self._worker, self._step, self._follow = run, worker, step, follow

    def take(self, request: Request) -> None:
        """Capture what a request names, and answer it."""
        try:
            items = _items(request.parameters)
        except (TypeError, KeyError, ValueError) as error:
            self._answer(request, f"{REFUSED}it cannot be read: {error}")
            return
        new = tuple(each for each in items if each not in self.items)
        self.items += new
        if new:
            self._follow()
        self._answer(request, f"taken: {_spoken(new)}" if items else "taken: nothing more need be captured")

    def _answer(self, request: Request, outcome: str) -> None:
        taken = Acknowledgement(request.id, self._worker(), self._step() - 1, time.time_ns(), outcome)
        try:
            write_acknowledgement(self._run, taken)
        except OSError:
            return  # a full disk is no reason to capture less


def _items(parameters: dict[str, Any]) -> tuple[CaptureItem, ...]:
    return tuple(item_from_dict(each) for each in parameters.get("items", ()))


def _spoken(items: tuple[CaptureItem, ...]) -> str:
    """``captures abs_mean of gradients, too``."""
    kinds = dict.fromkeys(
        f"{', '.join(each.statistics) or 'raw values'} of {each.collection or each.regex}" for each in items
    )
    return f"captures {'; '.join(kinds)}, too" if kinds else "that is captured already"
