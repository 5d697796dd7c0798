"""A class that a loss ignores because its index is the one for padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leadline.records import loss_facts as facts
from leadline.rules import Window
from leadline.rules.losses.given_loss import GivenLoss, given_losses

_SPECIAL: Final = 4
"""So many tokens may stand between words without being any: they separate texts, or stand for what is masked."""


def note(known: dict[tuple[str, str], GivenLoss], window: Window) -> None:
    """Note the losses that ignore one of their classes, by worker and name: the step with the fewest tokens."""
    for loss in given_losses(window):
        if loss.is_known(facts.IGNORED_TOKENS):
            before = known.get((loss.worker, loss.name), loss)
            known[loss.worker, loss.name] = min(before, loss, key=lambda step: step.number(facts.IGNORED_TOKENS))


def remark(known: Mapping[tuple[str, str], GivenLoss]) -> str:
    """Return the remark on a class that is ignored where the model is given words; empty: there is none."""
    for loss in known.values():
        tokens = int(loss.number(facts.IGNORED_TOKENS))
        if tokens > _SPECIAL:
            index, classes = f"{loss.number(facts.IGNORE_INDEX):.0f}", f"{loss.number(facts.CLASSES):.0f}"
            return (
                f"{loss.loss} ignores {index} (ignore_index), one of its {classes} classes, also between other "
                f"labels, at {tokens:,} different tokens: that class is never learned; right if {index} stands for "
                "positions without a label, otherwise -100 as the label of padding"
            )
    return ""
