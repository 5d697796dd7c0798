"""The capture schedules of each mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from leadline.records.loss_facts import ACTIVATION, CONSECUTIVE_LINEAR
from leadline.records.names import (
    CHECKS,
    GRADIENT_NORMS,
    SCALAR_COLLECTIONS,
    TREE_COLLECTIONS,
    is_module_collection,
)
from leadline.records.plan import CaptureItem, CapturePlan, applies_to_mode
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.capture_groups import count_scheduled, split
from leadline.training.recorder.schedule import CaptureSchedule

_WITH_NORMS: Final = frozenset({"gradients", GRADIENT_NORMS})
"""Gradient norms are captured along with either of these."""
_OF_CHECKS: Final = frozenset({CHECKS})
_FACTS: Final = (f"loss/{ACTIVATION}", f"loss/{CONSECUTIVE_LINEAR}")
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
    """Items captured between the beginning and the end of a step; the only ones here that cost enough to be delayed."""


class PlanSchedules:
    """The schedules of a capture plan by mode.

    Args:
        captures_between_steps: Whether an item may select data captured between the beginning and the end of a step.
        budget: The overhead budget; None: no limit.

    Attributes:
        tensor_items: The items that may select parameters, gradients or optimizer variables in train steps.
        non_finite_items: Those of them that count non-finite elements.
        has_norms: Whether gradient norms are captured at any step.
        has_loss_facts: Whether facts about loss calls, or pairs of linear layers, are captured.
    """

    tensor_items: list[CaptureItem]
    non_finite_items: list[CaptureItem]
    has_norms: bool
    has_loss_facts: bool

    def __init__(
        self, plan: CapturePlan, captures_between_steps: Callable[[CaptureItem], bool], budget: Budget | None
    ) -> None:
        self.budget = budget
        self._captures_between_steps = captures_between_steps
        self._modes: dict[str, ModeSchedules] = {}
        self._begun: Mapping[str, int] = {}
        self.change(plan)

    def change(self, plan: CapturePlan) -> None:
        """Switch to another plan."""
        self._items = split(plan.items) if self.budget is not None else plan.items
        self.tensor_items = [
            item for item in self._items if _may_select_parameters(item) and applies_to_mode(item, "train")
        ]
        self.non_finite_items = [item for item in self.tensor_items if _COUNTS & set(item.statistics)]
        self.has_norms = any(item.collection in _WITH_NORMS for item in plan.items)
        checks = [item for item in self._items if item.collection == CHECKS]
        self.has_loss_facts = any(item.selects(name, _OF_CHECKS) for item in checks for name in _FACTS)
        self._modes.clear()

    def non_finite_inputs(self, captured: Collection[CaptureItem]) -> list[CaptureItem]:
        """Return items that count non-finite elements of what a model is given; none if one of them is captured."""
        counting = [
            item
            for item in self._items
            if _COUNTS & set(item.statistics) and applies_to_mode(item, "train") and self._captures_between_steps(item)
        ]
        if any(item in captured for item in counting):
            return []
        return [
            replace(item, statistics=tuple(name for name in item.statistics if name in _COUNTS), raw=False)
            for item in counting
        ]

    def scheduled(self, mode: str, step: int) -> tuple[CaptureItem, ...]:
        """Return the items whose schedules have a step, whether they were captured there or not."""
        items = (item for item in self._items if applies_to_mode(item, mode))
        return tuple(item for item in items if count_scheduled(item.schedule, step, step))

    def of(self, mode: str) -> ModeSchedules:
        """Return the schedules of a mode."""
        if mode not in self._modes:
            self._modes[mode] = self._schedules(mode)
            if self._begun:
                self._skip(self._modes[mode], mode)
        return self._modes[mode]

    def continue_from(self, finished: Mapping[str, int]) -> None:
        """Skip the steps that earlier incarnations of the run have finished, by mode."""
        self._begun = finished
        for mode, schedules in self._modes.items():
            self._skip(schedules, mode)

    def _skip(self, schedules: ModeSchedules, mode: str) -> None:
        """Skip them in all but the settings: learning rates are those of the process, from its first step on."""
        for name in ModeSchedules.__slots__:
            if name != "settings":
                getattr(schedules, name).skip_to(self._begun.get(mode, 0))

    def of_optimizer(self) -> CaptureSchedule:
        """Return a schedule of ``tensor_items`` for one optimizer."""
        schedule = CaptureSchedule(self.tensor_items, self.budget)
        if self._begun:
            schedule.skip_to(self._begun.get("train", 0))
        return schedule

    def has_checks(self) -> bool:
        """Return whether the loop checks are captured at any step."""
        return any(item.collection == CHECKS for item in self._items)

    def _schedules(self, mode: str) -> ModeSchedules:
        items = [item for item in self._items if applies_to_mode(item, mode)]
        forward = [item for item in items if self._captures_between_steps(item)]
        return ModeSchedules(
            losses=_of_collections(items, "losses", "all", None),
            scalars=_of_collections(items, "scalars", "metrics", "all", None),
            settings=_of_collections(items, "hyperparameters"),
            norms=_of_collections(items, *_WITH_NORMS),
            checks=CaptureSchedule([item for item in items if item.collection == CHECKS], self.budget, mode=mode),
            forward=CaptureSchedule(forward, self.budget, mode=mode, is_forward=True),
        )


def _of_collections(items: Iterable[CaptureItem], *collections: str | None) -> CaptureSchedule:
    return CaptureSchedule([item for item in items if item.collection in collections])


def _may_select_parameters(item: CaptureItem) -> bool:
    if item.family == "arrays":
        return False  # what the script itself passes
    if item.collection in (SCALAR_COLLECTIONS | TREE_COLLECTIONS) - {GRADIENT_NORMS}:
        return False
    return item.collection is None or not is_module_collection(item.collection)
