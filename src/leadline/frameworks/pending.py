"""Data that is still being copied off an accelerator."""

from __future__ import annotations

from typing import Protocol


class Pending(Protocol):
    """A copy off an accelerator that is not complete yet.

    **Never waits** - except in ``wait``.
    """

    def is_done(self) -> bool:
        """Return whether it is complete."""

    def wait(self) -> None:
        """Wait until it is complete."""


class PendingNumbers(Pending, Protocol):
    """The numbers of a row."""

    def values(self) -> bytes | None:
        """Return one little-endian float64 per column, None if they were lost; called when the copy is complete."""
