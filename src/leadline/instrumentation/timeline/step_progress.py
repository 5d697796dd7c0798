"""Whether the current step has begun."""

from __future__ import annotations

from collections.abc import Callable


class StepProgress:
    """Tells the time between two steps from the time within one.

    A step begins with its batch, or with its computation: the call of its model, a backward pass or an update. After
    any update nothing has begun: where optimizers alternate, the iteration of the one that owns the clock goes on.

    Attributes:
        has_begun: Whether the current step has begun.
        is_announced: Whether the script is told now that a step begins.
        on_computation: Called once, when the computation of the current step begins.
    """

    __slots__ = ("_is_batch_expected", "has_begun", "is_announced", "on_computation")

    def __init__(self) -> None:
        self.has_begun = self.is_announced = self._is_batch_expected = False
        self.on_computation: Callable[[], None] | None = None

    def expect_batch(self, *, is_expected: bool) -> None:
        """Begin to wait for a loader.

        Args:
            is_expected: Whether it is a batch that is waited for.
        """
        self._is_batch_expected = is_expected

    def arrive(self) -> None:
        """End the wait."""
        self.has_begun = self.has_begun or self._is_batch_expected

    def exhaust(self, *, has_computed: bool) -> None:
        """Wait for nothing: the loader has no batch left, and the last one was of a step that has ended.

        Args:
            has_computed: Whether gradients were computed in the current step.
        """
        self._is_batch_expected = False
        self.has_begun = self.has_begun and has_computed

    def compute(self) -> None:
        """Begin the computation, or go on with it."""
        self.has_begun = True
        if self.on_computation is not None:
            call, self.on_computation = self.on_computation, None
            call()

    def end(self) -> None:
        """End a step, or an update of any optimizer."""
        self.has_begun = False
