"""A rule of one's own: fires when a loss is above a limit.

Change it to what you want to know, then:

    leadline run --rule THIS_FILE:LossAbove:limit=3 train.py
    leadline judge --rule THIS_FILE:LossAbove                      # the latest run, again, with this rule

The rule runs in a process of its own: what it does, and how long it takes, is no matter to the training.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from leadline.rules import Clear, Fired, Needs, Rule, Undecided, Verdict, Window


class LossAbove(Rule, frozen=True, kw_only=True):
    """Fires when a loss is above a limit at several saved steps in a row.

    Why it matters:
        Say what the fault costs whoever does not see it.
    How it decides:
        ``loss > limit`` at ``patience`` saved steps in a row, each loss by itself.
    Not a number:
        A NaN or infinite loss is not judged (``exploding_tensor`` is there for it).
    Blind spots:
        Say what it cannot see.
    Args:
        limit: Largest loss that is no finding, in the loss's unit.
        patience: Saved steps in a row above the limit, >= 1.
    Source:
        Yours.
    """

    limit: float = 3.0
    patience: Annotated[int, msgspec.Meta(ge=1)] = 3

    def needs(self) -> Needs:
        """What is captured for it: a collection and statistics of it, and how many earlier values it looks at."""
        return Needs.of("losses", "value", history=self.patience - 1)

    def evaluate(self, window: Window) -> Verdict:
        """The verdict at one step; it may depend on the parameters and the window alone."""
        readings = [each for each in window.readings("value") if abs(each.value) < float("inf")]
        if not readings:
            return Undecided("no loss was finite at this step")
        for reading in readings:
            values = [*(each.value for each in window.earlier(reading)), reading.value]
            if len(values) == self.patience and all(each > self.limit for each in values):
                return Fired(
                    f"{reading.tensor} is {reading.value:.4g}, above {self.limit:g} for {self.patience} saved steps",
                    tensors=(reading.tensor,),
                    evidence={"loss": reading.value, "limit": self.limit},
                    suggestion="a lower learning rate, or a look at the batch; usually the rate is too high",
                )
        return Clear()


def test_it_fires_above_the_limit_only() -> None:
    """Run it with pytest: the five lines that a rule's test needs."""
    from leadline.testing.runs import Capture
    from leadline.testing.windows import verdicts

    losses = [Capture(step, {"loss": {"value": value}}) for step, value in enumerate([2.0, 4.0, 4.0, 3.0])]
    said = [type(verdict) for _, verdict in verdicts(LossAbove(limit=3.0, patience=2), losses)]
    assert said == [Clear, Clear, Fired, Clear]
