"""Base class of the rules that test each tensor of a step by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from leadline.reader.window import Window
from leadline.records.verdict import Fired, Undecided, Verdict
from leadline.rules.messages import clear_if_complete
from leadline.rules.rule import Rule

Tested = TypeVar("Tested")
"""What is tested of a tensor: a reading, or an array statistic."""


class TensorRule(Rule, Generic[Tested], frozen=True, kw_only=True):
    """A rule that tests each tensor of a step by itself.

    It is undecided if nothing can be tested at the step, and clear only if nothing of the step was dropped.

    Attributes:
        data: What it tests, in the plural: ``gradients``.
        untested: Why it is undecided where ``find`` returns None.
    """

    data: ClassVar[str]
    untested: ClassVar[str]

    def find(self, window: Window) -> Sequence[Tested] | None:
        """Return what fails the test, as the finding lists it; None if nothing could be tested."""
        raise NotImplementedError

    def finding(self, bad: Sequence[Tested]) -> Fired:
        """Return the verdict on what fails the test, which is at least one tensor."""
        raise NotImplementedError

    def evaluate(self, window: Window) -> Verdict:
        bad = self.find(window)
        if bad is None:
            return Undecided(self.untested)
        return self.finding(bad) if bad else clear_if_complete(window, self.data)
