"""Selection of tensors by collection or name, as many rules have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.names import COLLECTIONS, is_module_collection
from leadline.records.needs import TensorNeed
from leadline.records.patterns import pattern_error

_BESIDES: Final = {"biases": "weights", "metrics": "losses"}
"""Collections that may be missing where another one is selected, too."""


def select(
    collections: Iterable[str] | None,
    patterns: Iterable[str] | None,
    statistics: tuple[str, ...],
    *,
    modes: tuple[str, ...] = (),
    history: int | None = 0,
    end: int | None = None,
) -> tuple[TensorNeed, ...]:
    """Return the needs for tensors of collections, and for tensors whose names match patterns.

    A pattern such as ``.*relu_output`` also selects the collection of that name, whatever its modules are called.
    Collections are required; those derived from patterns, biases next to weights, and metrics next to losses are
    optional: boosted trees have no other metrics where all that is evaluated is a loss.
    """
    patterns, collections = tuple(patterns or ()), tuple(collections or ())
    names = dict.fromkeys((*collections, *(kind for pattern in patterns for kind in kinds(pattern))))
    by_collection = [
        TensorNeed(
            collection,
            statistics=statistics,
            modes=modes,
            history=history,
            end=end,
            is_optional=collection not in collections or _BESIDES.get(collection) in collections,
        )
        for collection in names
    ]
    by_name = [
        TensorNeed(regex=pattern, statistics=statistics, modes=modes, history=history, end=end) for pattern in patterns
    ]
    return (*by_collection, *by_name)


def kinds(pattern: str) -> tuple[str, ...]:
    """Return the collections of module inputs and outputs in a pattern, both of ``.*tanh_input|.*sigmoid_input``."""
    parts = (part.removeprefix("^").removeprefix(".*").removesuffix("$") for part in pattern.split("|"))
    return tuple(part for part in parts if part.endswith(("_input", "_output")) and is_module_collection(part))


def check_selection(
    rule: str, collections: Iterable[str] | None, patterns: Iterable[str] | None, *, is_required: bool = False
) -> None:
    """Reject a selection that is invalid.

    Args:
        is_required: Whether the rule has no default selection.
    Raises:
        UnknownNameError: There is no such collection.
        ConfigurationError: A regular expression is invalid, or a required selection is missing.
    """
    if is_required and not (collections or patterns):
        raise ConfigurationError(
            f"{rule}: nothing is selected; give collection_names (for example gradients) or tensor_regex"
        )
    for collection in collections or ():
        if collection not in COLLECTIONS and not is_module_collection(collection):
            raise UnknownNameError("collection", collection, COLLECTIONS, hint=f"{rule}: collection_names")
    for pattern in patterns or ():
        check_pattern(rule, "tensor_regex", pattern)


def check_pattern(rule: str, parameter: str, pattern: str) -> None:
    """Reject an invalid regular expression.

    Raises:
        ConfigurationError: The pattern is invalid.
    """
    error = pattern_error(pattern)
    if error is not None:
        raise ConfigurationError(f"{rule}: {parameter} {pattern!r} is not a valid regular expression: {error}")


def format_number(number: float) -> str:
    """Format a number as in the names of statistics: ``-9.4999``, ``1e-05``, ``0``."""
    return repr(float(number)).removesuffix(".0")
