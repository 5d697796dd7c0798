"""The step clock: which step is under way, and which optimizer's step ends it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Final

from leadline.records.series import StepStamp

SILENT_STEPS: Final = 10
"""So many steps of one other optimizer without one of the owner, and the clock changes hands."""


class StepClock:
    """Counts steps; the first optimizer that steps owns the clock, and only its steps count.

    The owner is held weakly, and replaced when it is gone or silent while another steps ``SILENT_STEPS`` times.
    """

    def __init__(self, tell_owner: Callable[[str], None]) -> None:
        self.step = 0
        """The global step under way, from 0."""
        self.named: str | None = None
        """The mode of the steps without an optimizer's, where the script named it: ``eval`` or ``predict``."""
        self.finished: dict[str, int] = {}
        """Steps finished in each mode."""
        self._tell_owner = tell_owner
        self._owner: weakref.ref[object] | None = None
        self._is_claimed = False
        """Whether the owner says itself when its training ends."""
        self._since: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        """How often each other optimizer has stepped since the owner did."""

    def mode_step(self, mode: str) -> int:
        """The step of a mode that is under way, or comes next: so many of it have ended."""
        return self.finished.get(mode, 0)

    def stamp(self, mode: str = "train") -> StepStamp:
        """The step under way, as one of a mode."""
        return StepStamp(self.step, mode, self.mode_step(mode), time.time_ns())

    def last_stamp(self) -> StepStamp:
        """The last train step; of a process that never trained the last of its other steps."""
        mode = "train" if self.finished.get("train") or not self.finished else next(iter(self.finished))
        return StepStamp(max(self.step - 1, 0), mode, max(self.mode_step(mode) - 1, 0), time.time_ns())

    def owns(self, optimizer: object) -> bool:
        """Whether this optimizer's step ends the step under way; asked once for each step of an optimizer."""
        owner = self._owner() if self._owner is not None else None
        if owner is not optimizer:
            if self._is_claimed and owner is not None:
                return False
            self._since[optimizer] = self._since.get(optimizer, 0) + 1
            if owner is not None and self._since[optimizer] < SILENT_STEPS:
                return False
            if self._owner is not None:
                self._tell_owner(type(optimizer).__name__)
            self._owner = weakref.ref(optimizer)
        if self._since:
            self._since.clear()
        return True

    def is_owned_by(self, optimizer: object) -> bool:
        """Whether it is the owner, and no other has stepped since it did."""
        return self._owner is not None and self._owner() is optimizer and not self._since

    def claim(self, owner: object) -> bool:
        """A training that says when it ends owns the clock until then; False: another such one does."""
        before = self._owner() if self._owner is not None else None
        if self._is_claimed and before is not None and before is not owner:
            return False
        if before is not None and before is not owner:
            self._tell_owner(type(owner).__name__)
        self._owner, self._is_claimed = weakref.ref(owner), True
        return True

    def release(self, owner: object) -> None:
        """Its training has ended: the next that steps owns the clock."""
        if self._is_claimed and self._owner is not None and self._owner() is owner:
            self._owner, self._is_claimed = None, False

    def tick(self, mode: str = "train", *, is_counted: bool = True) -> None:
        """The step under way has ended, as one of a mode.

        Args:
            is_counted: Whether the global step counts it. Ranks of one job may evaluate differently: there the
                global step counts train steps only, so that it means the same on each of them.
        """
        self.finished[mode] = self.mode_step(mode) + 1
        self.step += is_counted
