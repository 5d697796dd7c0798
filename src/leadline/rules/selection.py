"""Choosing tensors by collection or name, the same way in every rule."""

from __future__ import annotations

import re
from collections.abc import Iterable

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.names import COLLECTIONS, is_module_collection
from leadline.records.needs import TensorNeed


def select(
    collections: Iterable[str] | None,
    patterns: Iterable[str] | None,
    statistics: tuple[str, ...],
    *,
    modes: tuple[str, ...] = (),
    history: int | None = 0,
    end: int | None = None,
) -> tuple[TensorNeed, ...]:
    """The union of what collections and regular expressions select.

    A pattern such as ``.*relu_output`` also means the collection of that kind, whatever its modules are called.
    """
    patterns = tuple(patterns or ())
    named = dict.fromkeys((*(collections or ()), *(kind for each in patterns for kind in kinds(each))))
    by_collection = [TensorNeed(each, statistics=statistics, modes=modes, history=history, end=end) for each in named]
    by_name = [
        TensorNeed(regex=each, statistics=statistics, modes=modes, history=history, end=end) for each in patterns
    ]
    return (*by_collection, *by_name)


def kinds(pattern: str) -> tuple[str, ...]:
    """The collections of module inputs and outputs that a pattern names: of ``.*tanh_input|.*sigmoid_input`` both."""
    parts = (each.removeprefix("^").removeprefix(".*").removesuffix("$") for each in pattern.split("|"))
    return tuple(each for each in parts if each.endswith(("_input", "_output")) and is_module_collection(each))


def check_selection(
    rule: str, collections: Iterable[str] | None, patterns: Iterable[str] | None, *, is_required: bool = False
) -> None:
    """Refuse what can select nothing.

    Args:
        is_required: Whether the rule has no tensors of its own choice.
    Raises:
        UnknownNameError: There is no such collection.
        ConfigurationError: A regular expression is none, or nothing is selected where something must be.
    """
    if is_required and not (collections or patterns):
        raise ConfigurationError(
            f"{rule}: nothing is selected; give collection_names (for example gradients) or tensor_regex"
        )
    for each in collections or ():
        if each not in COLLECTIONS and not is_module_collection(each):
            raise UnknownNameError("collection", each, COLLECTIONS, hint=f"{rule}: collection_names")
    for each in patterns or ():
        check_pattern(rule, "tensor_regex", each)


def check_pattern(rule: str, parameter: str, pattern: str) -> None:
    """Refuse what is no regular expression.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{rule}: {parameter} {pattern!r} is no regular expression: {error}") from error


def spoken_number(number: float) -> str:
    """A number as the names of statistics bear it: ``-9.4999``, ``1e-05``, ``0``."""
    return repr(float(number)).removesuffix(".0")


def and_more(count: int, noun: str = "tensor") -> str:
    """How a message goes on after the worst: ``, and 3 more tensors``; nothing where there are none."""
    return f", and {count:,} more {noun}{'s' * (count > 1)}" if count > 0 else ""
