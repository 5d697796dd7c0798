"""What a kind of profile is to the windows: something that records from one step to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from leadline.records.profile_window import ProfileWindow

Finish = Callable[[str], Sequence[str]]
"""Writes what was recorded into a folder, in a thread of ours; gives the names of the files."""


class ProfileUnavailableError(Exception):
    """This cannot be recorded here; the message says why."""


class Recording(Protocol):
    """One window under way; all calls come from the training's thread.

    **Changes nothing** - no bit of the training, its random state or its settings.

    **Leaves nothing** - after ``end`` no hook, thread or buffer of it is left, but for what ``Finish`` holds.

    **Is quick to end** - what takes long is done by what ``end`` gives, in another thread.
    """

    notes: list[str]
    """What of it could not be recorded, and what distorts it; a line each."""

    def begin(self, step: int) -> None:
        """Begin to record; the step is about to begin.

        Raises:
            ProfileUnavailableError: It cannot.
        """

    def enter(self, step: int, ended: str) -> None:
        """A further step of the window begins; the one before was of that mode."""

    def mark(self, phase: str) -> None:
        """Within a step something begins: ``backward``, ``optimizer``."""

    def end(self, step: int, ended: str) -> Finish:
        """Stop; the step that would be next is not part of the window, the one before was of that mode."""


Opener = Callable[[ProfileWindow], Recording]
"""Makes the recording of a window."""
