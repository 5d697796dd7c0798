"""The capture schedules of each mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leadline.records.names import (
    CHECKS,
    GRADIENT_NORMS,
    SCALAR_COLLECTIONS,
    TREE_COLLECTIONS,
    is_module_collection,
)
from leadline.records.plan import CaptureItem, CapturePlan, applies_to_mode
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.schedule import CaptureSchedule

_WITH_NORMS: Final = frozenset({"gradients", GRADIENT_NORMS})
"""Gradient norms are captured along with either of these."""
_COUNTS: Final = frozenset({"nan_count", "nonfinite_count"})


@dataclass(frozen=True, slots=True)
class ModeSchedules:
    """The schedules of one mode, by the mode's own steps."""

    losses: CaptureSchedule
    scalars: CaptureSchedule
    settings: CaptureSchedule
    norms: CaptureSchedule
    checks: CaptureSchedule
    forward: CaptureSchedule


class PlanSchedules:
    """The schedules of a capture plan by mode, throttled to its budget.

    Args:
        captures_between_steps: Whether an item may select data captured between the beginning and the end of a step.

    Attributes:
        budget: The overhead budget of the plan.
        tensor_items: The items that may select parameters, gradients or optimizer variables in train steps.
        non_finite_items: Those of them that count non-finite elements.
        has_norms: Whether gradient norms are captured at any step.
    """

    budget: Budget
    tensor_items: list[CaptureItem]
    non_finite_items: list[CaptureItem]
    has_norms: bool

    def __init__(self, plan: CapturePlan, captures_between_steps: Callable[[CaptureItem], bool]) -> None:
        self._captures_between_steps = captures_between_steps
        self._modes: dict[str, ModeSchedules] = {}
        self._set(plan)

    def change(self, plan: CapturePlan) -> None:
        """Switch to another plan; items that were throttled before stay reported."""
        throttled = self.budget.throttled
        self._set(plan)
        self.budget.throttled.update(throttled)

    def of(self, mode: str) -> ModeSchedules:
        """Return the schedules of a mode."""
        if mode not in self._modes:
            self._modes[mode] = _mode_schedules(mode, self.budget, self._captures_between_steps)
        return self._modes[mode]

    def has_checks(self) -> bool:
        """Return whether the loop checks are captured at any step."""
        return any(item.collection == CHECKS for item in self.budget.items)

    def _set(self, plan: CapturePlan) -> None:
        self.budget = Budget(plan)
        self.tensor_items = [
            item for item in self.budget.items if _may_select_parameters(item) and applies_to_mode(item, "train")
        ]
        self.non_finite_items = [item for item in self.tensor_items if _COUNTS & set(item.statistics)]
        self.has_norms = any(item.collection in _WITH_NORMS for item in plan.items)
        self._modes.clear()


def _mode_schedules(mode: str, budget: Budget, captures_between_steps: Callable[[CaptureItem], bool]) -> ModeSchedules:
    items = [item for item in budget.items if applies_to_mode(item, mode)]

    def schedule(selects: Callable[[CaptureItem], bool]) -> CaptureSchedule:
        return CaptureSchedule([item for item in items if selects(item)], budget)

    return ModeSchedules(
        losses=schedule(lambda item: item.collection in ("losses", "all", None)),
        scalars=schedule(lambda item: item.collection in ("scalars", "metrics", "all", None)),
        settings=schedule(lambda item: item.collection == "hyperparameters"),
        norms=schedule(lambda item: item.collection in _WITH_NORMS),
        checks=schedule(lambda item: item.collection == CHECKS),
        forward=schedule(captures_between_steps),
    )


def _may_select_parameters(item: CaptureItem) -> bool:
    if item.collection in (SCALAR_COLLECTIONS | TREE_COLLECTIONS) - {GRADIENT_NORMS}:
        return False
    return item.collection is None or not is_module_collection(item.collection)
