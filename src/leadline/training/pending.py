"""Numbers and tensors of a step that are still on their way off an accelerator."""

from __future__ import annotations

from typing import Protocol


class Pending(Protocol):
    """Something that an accelerator has been asked for and that comes later.

    **Never waits** - only ``wait`` does.
    """

    def is_done(self) -> bool:
        """Whether it has come."""

    def wait(self) -> None:
        """Return when it has come."""


class PendingNumbers(Pending, Protocol):
    """The numbers of a row."""

    def values(self) -> bytes:
        """One little-endian float64 a column; asked for when they have come."""
