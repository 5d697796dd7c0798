"""What of a plan is due in each mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leadline.records.names import CHECKS, GRADIENT_NORMS
from leadline.records.plan import CaptureItem, is_of_mode
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.schedule import Due

WITH_NORMS: Final = frozenset({"gradients", GRADIENT_NORMS})
"""Where one of these is captured, the norms of all gradients are."""


@dataclass(frozen=True, slots=True)
class Dues:
    """What is due in one mode, by the mode's own steps."""

    losses: Due
    scalars: Due
    settings: Due
    norms: Due
    checks: Due
    forward: Due


def dues_of(mode: str, budget: Budget, hears: Callable[[CaptureItem], bool]) -> Dues:
    """The dues of a mode.

    Args:
        hears: Whether a wish may mean what is captured between the beginning and the end of a step.
    """
    items = [item for item in budget.items if is_of_mode(item, mode)]

    def due(selects: Callable[[CaptureItem], bool]) -> Due:
        return Due([item for item in items if selects(item)], budget)

    return Dues(
        losses=due(lambda item: item.collection in ("losses", "all", None)),
        scalars=due(lambda item: item.collection in ("scalars", "metrics", "all", None)),
        settings=due(lambda item: item.collection == "hyperparameters"),
        norms=due(lambda item: item.collection in WITH_NORMS),
        checks=due(lambda item: item.collection == CHECKS),
        forward=due(hears),
    )
