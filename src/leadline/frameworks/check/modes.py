"""How dropout and batch statistics are judged in both modes."""

from __future__ import annotations

from typing import Final

from leadline.frameworks.check.outcome import Tested, failed, passed
from leadline.records.formatting import counted

MOSTLY_DROPPED: Final = 0.75
LAST_BATCH: Final = 0.5
"""The weight of the new batch above which running statistics are those of the last one."""
NEVER: Final = 1e-3
"""The weight of the new batch with which a thousand batches move running statistics by less than two thirds."""


def mostly_dropped(name: str, share: float) -> Tested:
    """Return the failure of dropout whose share looks like the one that is to be kept."""
    return failed(
        f"{name} drops {100 * share:.0f} % of its input in training: p is the share that is dropped, not kept",
        f"use {1 - share:.2g}, if {share:g} was meant as the share to keep",
        module=name,
    )


def unscaled_drops(name: str, scale: float) -> Tested:
    """Return the failure of dropout that makes outputs smaller or larger in training than in evaluation.

    Args:
        scale: The mean of an output in training, as a multiple of that in evaluation.
    """
    return failed(
        f"{name} drops a part of its input in training: on average its output is {scale:.2g} times that of evaluation",
        "divide what is kept by the share that is kept, 1 - p",
        module=name,
        scale=scale,
    )


def odd_momentum(name: str, momentum: float, weight: float, what: str) -> Tested:
    """Return the failure of running statistics that follow the last batch, or none.

    Args:
        weight: That of the new batch.
        what: What the momentum is in this framework.
    """
    effect = "are those of the last batch" if weight > LAST_BATCH else "hardly change in a thousand steps"
    return failed(
        f"{name} has a momentum of {momentum:g}: its running statistics, with which it is evaluated, {effect}",
        f"{what}: use {1 - momentum:.3g}",
        module=name,
    )


def same_in_both_modes() -> Tested:
    """Return the outcome of a model without dropout and batch statistics."""
    return passed("no module for dropout or batch statistics, and nothing is dropped in evaluation mode")


def follows_mode(drops: int, norms: int) -> Tested:
    """Return the outcome of a model whose parts follow its mode."""
    found = [counted(drops, "dropout")] * bool(drops) + [counted(norms, "batch norm")] * bool(norms)
    verb = "follows" if drops + norms == 1 else "follow"
    return passed(f"{' and '.join(found)} {verb} the mode of the model")
