"""Regular expressions that users write."""

from __future__ import annotations

import re


def pattern_error(pattern: str) -> str | None:
    """Return why a text is not a regular expression; None: it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:  # "(", "a{9999999999}", depth, -W error
        return str(error)
    return None
