"""Reading what an address asks for; what makes no sense is taken as not asked."""

from __future__ import annotations

from typing import Final

_MOST: Final = 2**62
_MOST_DIGITS: Final = 19


def whole_number(text: str | None) -> int | None:
    """A step, or a time in ns since the epoch; None: it is none."""
    if not text or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return number if (number := int(text)) < _MOST else None
