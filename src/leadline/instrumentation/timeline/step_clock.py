"""The step clock: the current step, and the optimizer whose step ends it; listeners to the boundaries of steps."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from leadline.records.series import StepStamp

SILENT_STEPS: Final = 10
"""After this many steps of another optimizer without one of the owner, the other becomes the owner."""
_NEW_STEPS: Final = 2
"""The same for one that appears when the owner has made ``SILENT_STEPS``: it begins another training, unless
the two alternate."""
_STEPS_OF_TRAINING: Final = 2
"""Steps in a row of an owner, after which another optimizer may be seen to take over in its first step; one that is
new after ``SILENT_STEPS`` of the owner always may."""


class StepClock:
    """Counts steps; the first optimizer that steps owns the clock, and only its steps count.

    The owner is held weakly, and replaced when it has been deleted; when another one, which is not one of several in
    each step, shows in its first step that the training of the owner is over; or when it is silent while another steps
    ``SILENT_STEPS`` times, one that is new only ``_NEW_STEPS``. An owner that has made one step gives the clock back
    to the one before it.

    Args:
        on_owner_change: Called with an owner that replaces another one.
        on_training: Called with an owner in its first step, while that is the current one.
        takes_over: Returns whether the latest step of another optimizer shows that the owner has ended its training.
    """

    def __init__(
        self,
        on_owner_change: Callable[[object], None],
        on_training: Callable[[object], None] = lambda owner: None,
        takes_over: Callable[[object], bool] = lambda optimizer: False,
    ) -> None:
        self.step = 0
        """The current global step, from 0."""
        self.wall_clock: Callable[[], int] = time.time_ns
        self.named: str | None = None
        """The mode of steps without an optimizer, if the script has set it: ``eval`` or ``predict``."""
        self.train_step = 0
        """The current train step, from 0."""
        self.finished: dict[str, int] = {}
        """Steps finished in each mode, those of earlier incarnations of the run included."""
        self.first_train_step = 0
        """The first train step of this process."""
        self._on_owner_change, self._on_training = on_owner_change, on_training
        self._takes_over = takes_over
        self._owner: weakref.ref[object] | None = None
        self._before: weakref.ref[object] | None = None
        """The owner before, if it was replaced while it was alive."""
        self._run = 0
        """Steps in a row of the owner, without one of another optimizer."""
        self._owners: weakref.WeakSet[object] = weakref.WeakSet()
        """All owners so far whose steps have counted."""
        self._is_new = False
        """Whether a step of the owner is yet to come."""
        self._is_claimed = False
        """Whether the owner announces the end of its training."""
        self._since: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        """Steps of each other optimizer since the last of the owner."""
        self._have_others_stepped = False
        self._owned_from = 0
        """The train step from which the owner owns the clock."""
        self._new: weakref.WeakSet[object] = weakref.WeakSet()
        """Optimizers that have appeared since the last step of an owner that had made ``SILENT_STEPS``."""
        self._others: weakref.WeakSet[object] = weakref.WeakSet()
        """All that have stepped while they did not own the clock."""

    def continue_from(self, step: int, finished: Mapping[str, int]) -> None:
        """Count on from where an earlier incarnation of the run was.

        Args:
            step: The global step.
            finished: The number of finished steps of each mode.
        """
        self.step, self.finished = step, dict(finished)
        self.train_step = self.first_train_step = self.finished.get("train", 0)

    @property
    def train_steps_here(self) -> int:
        """The number of train steps that this process has finished."""
        return self.train_step - self.first_train_step

    def mode_step(self, mode: str) -> int:
        """Return the current or next step of a mode, which is the number of its finished steps."""
        return self.finished.get(mode, 0)

    def stamp(self, mode: str = "train") -> StepStamp:
        """Return the stamp of the current step in a mode."""
        mode_step = self.train_step if mode == "train" else self.mode_step(mode)
        return StepStamp(self.step, mode, mode_step, self.wall_clock())

    def last_stamp(self) -> StepStamp:
        """Return the stamp of the last train step; in a process that never trained, of its last step."""
        mode = "train" if self.finished.get("train") or not self.finished else next(iter(self.finished))
        return StepStamp(max(self.step - 1, 0), mode, max(self.mode_step(mode) - 1, 0), time.time_ns())

    def owns(self, optimizer: object) -> bool:
        """Return whether this optimizer's step ends the current step; called once per step of an optimizer."""
        owner = self._owner() if self._owner is not None else None
        if owner is not optimizer:
            if self._is_claimed and owner is not None:
                return False
            self._since[optimizer] = self._since.get(optimizer, 0) + 1
            self._have_others_stepped = True
            self._note_new(optimizer)
            if owner is not None and not self._replaces(optimizer):
                self._run = 0
                return False
            if self._owner is not None:
                self._on_owner_change(optimizer)
            self._before, self._run = self._owner if owner is not None else None, 0
            self._owner, self._is_new, self._owned_from = weakref.ref(optimizer), True, self.train_step
        self._run += 1
        if self._is_new:
            self._begin(optimizer)
        if self._have_others_stepped:
            self._have_others_stepped = False
            self._since.clear()
            self._new.clear()
        return True

    def _replaces(self, optimizer: object) -> bool:
        """Return whether an optimizer that has stepped replaces the owner."""
        if self.train_step - self._owned_from == 1 and self._before is not None and self._before() is optimizer:
            return True
        is_third = optimizer in self._new  # after two that took turns, of which none makes steps in a row
        if (self._run >= _STEPS_OF_TRAINING or is_third) and self._takes_over(optimizer):
            return True
        return self._since[optimizer] >= (_NEW_STEPS if optimizer in self._new else SILENT_STEPS)

    def _note_new(self, optimizer: object) -> None:
        if optimizer not in self._others and optimizer not in self._owners:
            self._others.add(optimizer)
            if self.train_step - self._owned_from >= SILENT_STEPS:
                self._new.add(optimizer)

    def _begin(self, owner: object) -> None:
        """Begin the first step of an owner since it owns the clock."""
        self._is_new = False
        if owner not in self._owners:
            self._owners.add(owner)
            self._on_training(owner)

    def has_owned(self, optimizer: object) -> bool:
        """Return whether steps of this optimizer have counted before."""
        return optimizer in self._owners

    def is_owner(self, optimizer: object) -> bool:
        """Return whether this optimizer's steps are the steps of the training."""
        return self._owner is not None and self._owner() is optimizer

    def claim(self, owner: object) -> bool:
        """Give the clock to a training that announces its end; False if another such training owns it."""
        before = self._owner() if self._owner is not None else None
        if self._is_claimed and before is not None and before is not owner:
            return False
        if before is not None and before is not owner:
            self._on_owner_change(owner)
        self._owner, self._is_claimed, self._is_new = weakref.ref(owner), True, True
        return True

    def release(self, owner: object) -> None:
        """End such a training: the next optimizer that steps owns the clock."""
        if self._is_claimed and self._owner is not None and self._owner() is owner:
            self._owner, self._is_claimed = None, False

    def tick(self, mode: str = "train", *, is_counted: bool = True) -> None:
        """End the current step in a mode.

        Args:
            is_counted: Whether the global step counts it. The ranks of a job may evaluate differently: there the global
                step counts train steps only, so that it means the same on every rank.
        """
        self.finished[mode] = self.finished.get(mode, 0) + 1
        self.train_step = self.finished.get("train", 0)
        self.step += is_counted


class StepListener(Protocol):
    """Is called at the boundaries of the training, and unless it is idle, of steps and phases."""

    @property
    def is_idle(self) -> bool:
        """Whether no call is needed now."""

    def begin_training(self) -> None:
        """Begin the first step: with its first batch, forward or backward pass."""

    def exhaust_loader(self) -> None:
        """A loader has no batch left, after the first step: the training may end now."""

    def begin_step(self, step: int, ended: str = "train") -> None:
        """Begin a step.

        Args:
            step: Its global number.
            ended: The mode of the previous step.
        """

    def mark(self, phase: str) -> None:
        """Begin ``backward`` or ``optimizer`` within a train step, for the first time or again."""


class NullListener:
    """A listener that is always idle."""

    is_idle = True

    def begin_training(self) -> None: ...

    def exhaust_loader(self) -> None: ...

    def begin_step(self, step: int, ended: str = "train") -> None: ...

    def mark(self, phase: str) -> None: ...
