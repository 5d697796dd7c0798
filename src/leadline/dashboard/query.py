"""Values in the addresses of requests."""

from __future__ import annotations

from typing import Final

_MAX_VALUE: Final = 2**62
_MAX_DIGITS: Final = 19


def parse_integer(text: str | None) -> int | None:
    """Parse a step, or a time in ns since the epoch; None if invalid."""
    if not text or len(text) > _MAX_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return number if (number := int(text)) < _MAX_VALUE else None
