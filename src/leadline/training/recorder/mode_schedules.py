"""What of a plan is due in each mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leadline.records.names import CHECKS, GRADIENT_NORMS
from leadline.records.plan import CaptureItem, is_of_mode
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.schedule import CaptureSchedule

WITH_NORMS: Final = frozenset({"gradients", GRADIENT_NORMS})
"""Where one of these is captured, the norms of all gradients are."""


@dataclass(frozen=True, slots=True)
class ModeSchedules:
    """What is due in one mode, by the mode's own steps."""

    losses: CaptureSchedule
    scalars: CaptureSchedule
    settings: CaptureSchedule
    norms: CaptureSchedule
    checks: CaptureSchedule
    forward: CaptureSchedule


def schedules_for(mode: str, budget: Budget, hears: Callable[[CaptureItem], bool]) -> ModeSchedules:
    """The dues of a mode.

    Args:
        hears: Whether a wish may mean what is captured between the beginning and the end of a step.
    """
    items = [item for item in budget.items if is_of_mode(item, mode)]

    def due(selects: Callable[[CaptureItem], bool]) -> CaptureSchedule:
        return CaptureSchedule([item for item in items if selects(item)], budget)

    return ModeSchedules(
        losses=due(lambda item: item.collection in ("losses", "all", None)),
        scalars=due(lambda item: item.collection in ("scalars", "metrics", "all", None)),
        settings=due(lambda item: item.collection == "hyperparameters"),
        norms=due(lambda item: item.collection in WITH_NORMS),
        checks=due(lambda item: item.collection == CHECKS),
        forward=due(hears),
    )
