"""Losses of a policy whose advantages learn with it, or whose ratios to the old policy are always 1."""

from __future__ import annotations

from typing import Final

from leadline.records.loss_facts import FACT_STEPS, HAS_MOVING_ADVANTAGE, IS_RATIO_ONE
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(HAS_MOVING_ADVANTAGE, IS_RATIO_ONE, end=FACT_STEPS)
_ADVANTAGE: Final = (
    "log-probabilities are multiplied by an error that has a gradient and is minimized itself, as an advantage that is "
    "not detached: the critic learns what makes the loss of the policy small; advantage.detach() in the policy's loss"
)


def note(known: dict[str, int], window: Window) -> None:
    """Note how often each fact was seen; of ratios how many there are."""
    for reading in window.readings("value"):
        check = reading.tensor.rpartition("/")[2]
        if check == HAS_MOVING_ADVANTAGE:
            known[check] = known.get(check, 0) + 1
        elif check == IS_RATIO_ONE:
            known[check] = int(reading.value)


def remarks(known: dict[str, int]) -> list[str]:
    """Return the remarks on them."""
    found = [_ADVANTAGE] if known.get(HAS_MOVING_ADVANTAGE, 0) >= FACT_STEPS else []
    if ratios := known.get(IS_RATIO_ONE, 0):
        found.append(
            f"all {ratios:,} ratios of new to old probabilities were exactly 1 at the second update, though the first "
            "one had moved the policy and no model was asked for actions in between: the old log-probabilities are "
            "those of the policy that is updated, and nothing is ever clipped; they are to be kept from the rollout"
        )
    return found
