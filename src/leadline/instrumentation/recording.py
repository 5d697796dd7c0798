"""Interfaces of the recordings of profile windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from leadline.records.profile_window import ProfileWindow

Finish = Callable[[str], Sequence[str]]
"""Writes a recording into a folder, in a thread of ours; returns the names of the files."""


class ProfileUnavailableError(Exception):
    """This cannot be recorded here; the message says why."""


class Recording(Protocol):
    """The recording of one open window; all calls come from the training's thread.

    **Changes nothing** - no bit of the training, its random state or its settings.

    **Leaves nothing** - after ``end`` no hook, thread or buffer is left, except in the ``Finish``.

    **Ends quickly** - slow work is done by the ``Finish`` that ``end`` returns, in another thread.
    """

    notes: list[str]
    """Lines about what could not be recorded, and what distorts the recording."""

    def begin(self, step: int) -> None:
        """Begin to record; the step is about to begin.

        Raises:
            ProfileUnavailableError: It cannot be recorded.
        """

    def enter(self, step: int, ended: str) -> None:
        """Begin a further step of the window; the previous step was of the mode ``ended``."""

    def mark(self, phase: str) -> None:
        """Begin a phase within the step: ``backward``, ``optimizer``."""

    def end(self, step: int, ended: str) -> Finish:
        """Stop before ``step``, which is not part of the window; the previous step was of the mode ``ended``."""


Opener = Callable[[ProfileWindow], Recording]
"""Makes the recording of a window."""
