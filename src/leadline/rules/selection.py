"""Choosing tensors by collection or name, the same way in every rule."""

from __future__ import annotations

import re
from collections.abc import Iterable

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.names import COLLECTIONS
from leadline.records.needs import TensorNeed


def select(
    collections: Iterable[str] | None, patterns: Iterable[str] | None, statistics: tuple[str, ...],
    *, modes: tuple[str, ...] = (), history: int | None = 0,
) -> tuple[TensorNeed, ...]:  # fmt: skip
    """The union of what collections and regular expressions select."""
    by_collection = [
        TensorNeed(each, statistics=statistics, modes=modes, history=history) for each in collections or ()
    ]
    by_name = [TensorNeed(regex=each, statistics=statistics, modes=modes, history=history) for each in patterns or ()]
    return (*by_collection, *by_name)


def check_selection(rule: str, collections: Iterable[str] | None, patterns: Iterable[str] | None) -> None:
    """Refuse what can select nothing.

    Raises:
        UnknownNameError: There is no such collection.
        ConfigurationError: A regular expression is none.
    """
    for each in collections or ():
        if each not in COLLECTIONS:
            raise UnknownNameError("collection", each, COLLECTIONS, hint=f"{rule}: collection_names")
    for each in patterns or ():
        try:
            re.compile(each)
        except re.error as error:
            raise ConfigurationError(f"{rule}: tensor_regex {each!r} is no regular expression: {error}") from error
