"""How far the schedulers of an optimizer's learning rate have come."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, LRScheduler, OneCycleLR, PolynomialLR

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.records.names import (
    COSINE_PROGRESS,
    RATE_SHARE,
    SCHEDULE_LENGTH,
    SCHEDULE_STEPS,
    SCHEDULERS,
    WARM_UP_LENGTH,
)

_LIBRARIES: Final = ("transformers.optimization", "diffusers.optimization")
"""The modules whose functions for ``LambdaLR`` say by name how long they are."""
_LENGTH, _WARM_UP = "num_training_steps", "num_warmup_steps"


class Schedules:
    """Knows the schedulers of optimizers, from when they are made."""

    def __init__(self, guard: HookGuard) -> None:
        self._guard, self._patches = guard, Patches()
        self._latest: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """The steps of schedulers at the last count."""
        self._known: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Replace the constructor of schedulers."""
        self._patches.replace(LRScheduler, "__init__", self._make_init)

    def uninstall(self) -> None:
        """Restore it."""
        self._patches.restore()

    def results(self, optimizer: Any, label: str) -> dict[str, float]:
        """Return the checks of an optimizer's schedulers; empty: it has none.

        A learning rate that is a tensor is not read: on a device that would wait for it.

        Args:
            label: The optimizer's.
        """
        schedulers = [known for reference in self._known.get(optimizer, ()) if (known := reference()) is not None]
        if not schedulers:
            return {}
        found = {}
        shares = [share for group in optimizer.param_groups if (share := _rate_share(group)) is not None]
        if shares:
            found[f"{label}/{RATE_SHARE}"] = max(shares)
        if len(schedulers) == 1:
            found[f"{label}/{SCHEDULE_STEPS}"] = float(schedulers[0].last_epoch)
            found |= {f"{label}/{check}": steps for check, steps in _lengths(schedulers[0]).items()}
        cosines = [schedule for schedule in schedulers if type(schedule) is CosineAnnealingLR and schedule.T_max > 0]
        if cosines:
            found[f"{label}/{COSINE_PROGRESS}"] = max(cosine.last_epoch / cosine.T_max for cosine in cosines)
        if len(schedulers) > 1:
            found[f"{label}/{SCHEDULERS}"] = float(self._count_stepped(schedulers))
        return found

    def _count_stepped(self, schedulers: list[Any]) -> int:
        """Return how many schedulers, those that are part of another left out, have made steps since the last call."""
        inner = {id(part) for schedule in schedulers for part in getattr(schedule, "_schedulers", ())}
        own = [schedule for schedule in schedulers if id(schedule) not in inner]
        stepped = [schedule for schedule in own if schedule.last_epoch > self._latest.get(schedule, 0)]
        self._latest.update({schedule: schedule.last_epoch for schedule in own})
        return len(stepped)

    def counts(self, optimizer: Any) -> list[int]:
        """Return how often each scheduler of an optimizer was stepped."""
        return [known.last_epoch for reference in self._known.get(optimizer, ()) if (known := reference()) is not None]

    def _make_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._note

        def __init__(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            original(scheduler, *args, **kwargs)
            guard.run(note, scheduler)

        return hide_from_dynamo(__init__)

    def _note(self, scheduler: Any) -> None:
        optimizer = scheduler.optimizer
        while isinstance(inner := getattr(optimizer, "optimizer", None), Optimizer):
            optimizer = inner  # Accelerate's, which makes the step
        self._known.setdefault(optimizer, []).append(weakref.ref(scheduler))


def _lengths(scheduler: Any) -> dict[str, float]:
    """Return for how many of its steps a scheduler is made, and in how many it raises the learning rate, where it says.

    Of one that goes down and up again by design, such as a cosine of PyTorch, the length is left out.
    """
    known: dict[str, Any] = {}
    if type(scheduler) is LambdaLR:
        given = [_given(function) for function in scheduler.lr_lambdas]
        if all(one == given[0] for one in given):
            known = {SCHEDULE_LENGTH: given[0].get(_LENGTH), WARM_UP_LENGTH: given[0].get(_WARM_UP)}
    elif type(scheduler) is OneCycleLR:
        known = {SCHEDULE_LENGTH: scheduler.total_steps}
    elif type(scheduler) is PolynomialLR:
        known = {SCHEDULE_LENGTH: scheduler.total_iters}
    elif type(scheduler) is LinearLR:
        is_rising = scheduler.start_factor < scheduler.end_factor
        known = {WARM_UP_LENGTH if is_rising else SCHEDULE_LENGTH: scheduler.total_iters}
    return {check: float(steps) for check, steps in known.items() if isinstance(steps, (int, float)) and steps > 0}


def _given(function: Any) -> dict[str, Any]:
    """Return by name what a function of a library's schedule was given: as keywords, or where it was defined."""
    if isinstance(function, partial):
        return dict(function.keywords) if getattr(function.func, "__module__", None) in _LIBRARIES else {}
    if getattr(function, "__module__", None) not in _LIBRARIES:
        return {}
    cells = getattr(function, "__closure__", None) or ()
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True))


def _rate_share(group: dict[str, Any]) -> float | None:
    """Return the learning rate of a group as a share of the one that it was made with, or of its cycle's largest."""
    rate, largest = group.get("lr"), group.get("max_lr", group.get("initial_lr"))
    if not isinstance(rate, (int, float)) or not isinstance(largest, (int, float)) or largest <= 0:
        return None
    return rate / largest
