"""The step that ended last: what the script logs or saves belongs to it until the next step begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from leadline.frameworks.array_capture import CapturedArrays
from leadline.instrumentation.timeline.step_progress import StepProgress
from leadline.records.plan import CaptureItem
from leadline.records.series import StepStamp
from leadline.training.recorder.scalars import Scalar

_LONGEST_SECONDS: Final = 5.0
"""How long a step waits for what follows it, if nothing else happens."""


class LastStep:
    """Collects what a script gives after a step; the step is complete when the next one has begun.

    **Once** - what has a name that the script gave already within the step, or ahead of it, is of the next step.

    **Late is allowed** - what follows a step that was completed meanwhile still belongs to it: readers start over.

    Args:
        note: Takes a line about something that cannot be captured.

    Attributes:
        stamp: The step; None before the first one has ended.
        is_complete: Whether all its data was handed to the writer.
        scalar_items: The items for logged values that are scheduled at the step; None: not known yet.
        array_items: The items for arrays that are scheduled at the step.
        wants_loss: Returns whether losses are captured at the step.
        arrays: The arrays that followed it.
        scalars: The numbers that followed it, by name.
    """

    def __init__(self, progress: StepProgress, note: Callable[[str], None]) -> None:
        self.stamp: StepStamp | None = None
        self.is_complete = True
        self.scalar_items: Sequence[CaptureItem] | None = None
        self.array_items: Sequence[CaptureItem] = ()
        self.wants_loss: Callable[[], bool] = lambda: False
        self.arrays = CapturedArrays(note)
        self.scalars: dict[str, Scalar] = {}
        self._progress = progress
        self._is_closed = False
        self._ended_at = 0.0
        self._given: set[Hashable] = set()
        """What the script gave of the step before its end."""
        self._given_next: set[Hashable] = set()

    def end(
        self,
        stamp: StepStamp,
        *,
        scalars: Mapping[str, Scalar],
        scalar_items: Sequence[CaptureItem] | None,
        array_items: Sequence[CaptureItem],
        wants_loss: Callable[[], bool],
    ) -> None:
        """End a step: from now on it is the last one.

        Args:
            scalars: Numbers that were logged at earlier steps and are written at this one, unless others follow it.
        """
        self.stamp, self.is_complete, self._is_closed = stamp, False, False
        self.scalars |= scalars
        self.scalar_items = scalar_items
        self.array_items, self.wants_loss = array_items, wants_loss
        self.arrays.begin(array_items, stamp.mode)
        self._given, self._given_next = self._given_next, set()
        self._progress.end()
        self._ended_at = time.monotonic()

    def extend(self, array_items: Sequence[CaptureItem], scalar_items: Sequence[CaptureItem]) -> None:
        """Capture further items of this step: the plan has changed."""
        self.array_items = tuple(dict.fromkeys((*self.array_items, *array_items)))
        self.scalar_items = (*(self.scalar_items or ()), *scalar_items)
        self.arrays.extend(self.array_items)

    def close(self) -> None:
        """Give what follows to the next step: the script has announced it."""
        self._is_closed = True

    def takes(self, name: Hashable, mode: str | None = None) -> bool:
        """Return whether what the script gives now belongs to this step; if not, it is of the current one.

        Args:
            name: Identifies it.
            mode: Its mode; None: any.
        """
        if self.would_take(name, mode):
            return True
        self._given_next.add(name)
        return False

    def would_take(self, name: Hashable, mode: str | None = None) -> bool:
        """Return the same as ``takes``, where nothing is given yet."""
        stamp, progress = self.stamp, self._progress
        is_over = self._is_closed or progress.has_begun or progress.is_announced
        return stamp is not None and not is_over and name not in self._given and mode in (None, stamp.mode)

    @property
    def is_overdue(self) -> bool:
        """Whether nothing has followed the step for long, so that it should be completed."""
        return not self.is_complete and time.monotonic() - self._ended_at > _LONGEST_SECONDS

    def take_scalars(self) -> dict[str, Scalar]:
        """Return the numbers, and remove them; another thread may log meanwhile."""
        return {name: self.scalars.pop(name) for name in list(self.scalars)}
