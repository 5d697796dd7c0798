"""A custom rule that fires when a loss is above a limit.

Change it as needed, then:

    leadline run --rule THIS_FILE:LossAbove:limit=3 train.py
    leadline judge --rule THIS_FILE:LossAbove                      # evaluate this rule on the latest run

The rule runs in a separate process: neither its errors nor its run time affect the training.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from leadline.rules import Clear, Fired, Needs, Rule, Undecided, Verdict, Window


class LossAbove(Rule, frozen=True, kw_only=True):
    """Fires when a loss is above a limit at several saved steps in a row.

    Why it matters:
        Describe the consequences of the fault.
    How it decides:
        ``loss > limit`` at ``patience`` saved steps in a row, for each loss separately.
    Not a number:
        NaN and infinite losses are skipped (``exploding_tensor`` detects them).
    Blind spots:
        Describe what it cannot detect.
    Args:
        limit: Largest loss without a finding, in the unit of the loss.
        patience: Saved steps in a row above the limit, >= 1.
    Source:
        The author of the rule.
    """

    limit: float = 3.0
    patience: Annotated[int, msgspec.Meta(ge=1)] = 3

    def needs(self) -> Needs:
        """What to capture: a collection, its statistics, and the number of earlier values in the window."""
        return Needs.of("losses", "value", history=self.patience - 1)

    @property
    def least_observations(self) -> int:
        """The number of saved steps that it takes to be clear."""
        return self.patience

    def evaluate(self, window: Window) -> Verdict:
        """Return the verdict at one step; it must depend on the parameters and the window only."""
        readings = [reading for reading in window.readings("value") if abs(reading.value) < float("inf")]
        if not readings:
            return Undecided("no loss was finite at this step")
        for reading in readings:
            values = [*(earlier.value for earlier in window.earlier(reading)), reading.value]
            if len(values) == self.patience and all(value > self.limit for value in values):
                return Fired(
                    f"{reading.tensor} is {reading.value:.4g}, above {self.limit:g} for {self.patience} saved steps",
                    tensors=(reading.tensor,),
                    evidence={"loss": reading.value, "limit": self.limit},
                    suggestion="lower the learning rate, or inspect the batch",
                )
        return Clear()


def test_it_fires_above_the_limit_only() -> None:
    """A minimal test of the rule; run it with pytest."""
    from leadline.testing.runs import Capture
    from leadline.testing.windows import verdicts

    losses = [Capture(step, {"loss": {"value": value}}) for step, value in enumerate([2.0, 4.0, 4.0, 3.0])]
    kinds = [type(verdict) for _, verdict in verdicts(LossAbove(limit=3.0, patience=2), losses)]
    assert kinds == [Clear, Clear, Fired, Clear]
