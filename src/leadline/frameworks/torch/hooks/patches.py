"""Functions and methods of PyTorch that are replaced by ours while a training is watched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """What was replaced, and how to put it back.

    **Leaves nothing** - ``restore`` puts everything back that still bears our mark; what somebody has wrapped once more
    stays, and calls what was there before.
    """

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace ``owner.name`` by what ``make`` makes of it; nothing happens where there is no such name."""
        original = getattr(owner, name, None)
        if original is None:
            return
        known = next((each for each in self._originals if each[2] is original), None)
        replacement = known[3] if known is not None else functools.wraps(original)(make(original))
        self._originals.append((owner, name, original, replacement))
        setattr(owner, name, replacement)

    def restore(self) -> None:
        """Put everything back."""
        for owner, name, original, replacement in reversed(self._originals):
            if getattr(owner, name, None) is replacement:
                setattr(owner, name, original)
        self._originals = []
