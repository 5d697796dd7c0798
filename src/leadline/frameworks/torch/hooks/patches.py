"""Replacement of PyTorch's functions and methods while a training is monitored."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """The functions replaced so far, with their originals.

    **Leaves nothing** - ``restore`` puts back every original whose replacement is still in place; a replacement that
    another library has wrapped since stays, and calls its original.
    """

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace ``owner.name`` with the result of ``make(original)``; do nothing if the name does not exist."""
        original = getattr(owner, name, None)
        if original is None:
            return
        known = next((entry for entry in self._originals if entry[2] is original), None)
        replacement = known[3] if known is not None else functools.wraps(original)(make(original))
        self._originals.append((owner, name, original, replacement))
        setattr(owner, name, replacement)

    def restore(self) -> None:
        """Put all originals back."""
        for owner, name, original, replacement in reversed(self._originals):
            if getattr(owner, name, None) is replacement:
                setattr(owner, name, original)
        self._originals = []
