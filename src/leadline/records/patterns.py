"""Regular expressions that users write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_LONGEST: Final = 300


def pattern_error(pattern: str) -> str | None:
    """Return why a text is not a regular expression; None: it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:  # "(", "a{9999999999}", depth, -W error
        return str(error)
    return None


def metric_pattern_error(pattern: str) -> str | None:
    """Return why a text is not an expression that finds a metric in a printed line; None: it is one.

    A repetition without bound of what repeats without bound may take forever on a hostile line.
    """
    if len(pattern) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    error = pattern_error(pattern)
    if error is not None:
        return error
    if (groups := re.compile(pattern).groups) != 1:
        return f"it has {groups} groups; one group encloses the number, others are written (?:…)"
    parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]
    return "it repeats what repeats itself, such as (a+)+; repeat it once" if _is_nested(parsed) else None


def _is_nested(parsed: Any, *, is_repeated: bool = False) -> bool:
    """Return whether a repetition without bound is within another one."""
    for code, argument in parsed:
        repeats = str(code) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[1] > _MANY
        if repeats and is_repeated:
            return True
        if any(_is_nested(part, is_repeated=is_repeated or repeats) for part in _parts(argument)):
            return True
    return False


_MANY: Final = 16
"""Repetitions up to this number are no danger within others."""


def _parts(argument: Any) -> Iterator[Any]:
    """Yield the parsed expressions in the argument of an operation."""
    if isinstance(argument, re._parser.SubPattern):  # type: ignore[attr-defined]
        yield argument
    elif isinstance(argument, (list, tuple)):
        for part in argument:
            yield from _parts(part)
