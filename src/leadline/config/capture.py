"""Capture items from options and tables, and back to tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from leadline.config.options import TYPO_SIMILARITY, parse_spec
from leadline.errors import ConfigurationError, UnknownNameError, closest, located
from leadline.records.json_object import JsonObject
from leadline.records.names import (
    AVERAGE_SHAP,
    COLLECTIONS,
    MODES,
    SCALAR_COLLECTIONS,
    TREE_COLLECTIONS,
    is_module_collection,
)
from leadline.records.patterns import pattern_error
from leadline.records.plan import CaptureItem, Schedule
from leadline.statistics.definitions import BASIC, find_statistic

CAPTURE_KEYS: Final = (
    "every",
    "every_seconds",
    "start",
    "end",
    "steps",
    "modes",
    "statistics",
    "raw",
    "regex",
    "modules",
    "custom",
)

TRAIN_ONLY: Final = TREE_COLLECTIONS | {
    "weights",
    "biases",
    "gradients",
    "gradient_norms",
    "optimizer_variables",
    "hyperparameters",
}
_CUSTOM: Final = re.compile(r"[\w-]+")
_RAW: Final = frozenset({"full_shap", "trees"})
"""Collections that are stored as raw tensors by default."""


def parse_capture(text: str) -> CaptureItem:
    """Parse ``COLLECTION[:key=value,…]``; lists are separated by commas: ``gradients:statistics=l2,max,every=1``.

    Raises:
        ConfigurationError: The text is malformed.
        UnknownNameError: No collection, key, mode or statistic has that name.
    """
    collection, given = parse_spec(text, option="capture")
    with located(f"--capture {collection}"):
        return capture_item(collection, given)


def capture_item(collection: str, given: Mapping[str, Any]) -> CaptureItem:
    """The capture item of a ``--capture`` option or of a table of the configuration file."""
    custom = collection if is_custom_collection(collection, given) else None
    if custom is None and collection not in COLLECTIONS and not is_module_collection(collection):
        hint = "a custom collection needs regex= or modules="
        raise UnknownNameError("collection", collection, COLLECTIONS, hint=hint)
    for key in given:
        if key not in CAPTURE_KEYS:
            raise UnknownNameError("key", key, CAPTURE_KEYS)
    raw = _flag(given, "raw", default=collection in _RAW)
    statistics = tuple(find_statistic(name).name for name in _as_list(given.get("statistics", ())))
    if not statistics and not (raw and "statistics" not in given):
        statistics = default_statistics(collection)
    modes = _names(given.get("modes", _default_modes(collection)), MODES, "mode")
    if collection in TRAIN_ONLY and modes != ("train",):
        raise ConfigurationError(f"modes={','.join(modes)}: {collection} are captured in train steps only")
    return CaptureItem(
        collection=None if custom else collection,
        regex=_regex(given, "regex"),
        statistics=statistics,
        raw=raw,
        schedule=_schedule(given),
        modes=modes,
        source="option",
        modules=_regex(given, "modules"),
        custom=custom,
    )


def capture_table(item: CaptureItem) -> tuple[str, JsonObject]:
    """Return the collection of an item, and the fewest keys from which ``capture_item`` recreates it."""
    collection = item.custom or item.collection or ""
    values = {key: value for key, value in {**asdict(item), **asdict(item.schedule)}.items() if key in CAPTURE_KEYS}
    table = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    table = {key: value for key, value in table.items() if value not in (None, [])}
    table |= {"custom": True} if item.custom else {}
    for key in [*table]:
        smaller = {name: value for name, value in table.items() if name != key}
        with suppress(ConfigurationError):
            if capture_item(collection, smaller) == item:
                table = smaller
    return collection, table


def is_custom_collection(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a name is that of a custom collection.

    It has a selection, and is not similar to a built-in name: that is a typing error, unless ``custom`` denies it.
    """
    if name in COLLECTIONS or is_module_collection(name) or not ("regex" in given or "modules" in given):
        return False
    if _flag(given, "custom", default=False):
        return _CUSTOM.fullmatch(name) is not None
    return name.replace("-", "_").isidentifier() and closest(name, COLLECTIONS, TYPO_SIMILARITY) is None


def _default_modes(collection: str) -> tuple[str, ...]:
    """Scalars, which exist in every mode, are captured in all of them by default."""
    return ("train", "eval", "predict") if collection in ("losses", "metrics", "scalars") else ("train",)


def default_statistics(collection: str) -> tuple[str, ...]:
    """The default statistics of a collection."""
    if collection == AVERAGE_SHAP:
        return ("value", "abs_mean")
    if collection in SCALAR_COLLECTIONS:
        return ("value",)
    if collection in ("default", "gradients", "optimizer_variables", *_RAW) or is_module_collection(collection):
        return BASIC
    updates = (*BASIC, "update_ratio")
    return updates if collection in ("weights", "biases") else (*updates, "value")  # of numbers that it selects


def _schedule(given: Mapping[str, Any]) -> Schedule:
    every = _integer(given, "every", minimum=1)
    every_seconds = _seconds(given)
    steps = tuple(_as_integer(step, "steps", 0) for step in _as_list(given.get("steps", ())))
    start, end = _integer(given, "start", minimum=0), _integer(given, "end", minimum=1)
    if end is not None and end <= (start or 0):
        raise ConfigurationError(f"end ({end}) must be above start ({start or 0})")
    if every is None and every_seconds is None and not steps:
        every = 50
    return Schedule(every, every_seconds, start or 0, end, steps)


def _integer(given: Mapping[str, Any], key: str, *, minimum: int) -> int | None:
    return None if given.get(key) is None else _as_integer(given[key], key, minimum)


def _as_integer(value: Any, key: str, minimum: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise ConfigurationError(f"{key} must be an integer, not {value!r}") from None
    if number < minimum:
        raise ConfigurationError(f"{key} must be at least {minimum}, not {number}")
    return number


def _seconds(given: Mapping[str, Any]) -> float | None:
    if given.get("every_seconds") is None:
        return None
    try:
        number = float(given["every_seconds"])
    except ValueError:
        raise ConfigurationError(f"every_seconds must be a number, not {given['every_seconds']!r}") from None
    if not 0 < number < float("inf"):
        raise ConfigurationError(f"every_seconds must be above 0, not {number:g}")
    return number


def _flag(given: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = given.get(key, default)
    if isinstance(value, bool):
        return value
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).lower() not in known:
        raise ConfigurationError(f"{key} must be true or false, not {value!r}")
    return known[str(value).lower()]


def _names(value: Any, known: Iterable[str], kind: str) -> tuple[str, ...]:
    names = _as_list(value)
    known = tuple(known)
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)
    return tuple(names)


def _as_list(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    return [str(part).strip() for part in parts if str(part).strip()]


def _regex(given: Mapping[str, Any], key: str) -> str | None:
    regex = given.get(key)
    if regex is None:
        return None
    error = pattern_error(str(regex))
    if error is not None:
        raise ConfigurationError(f"{key} {regex!r} is not a valid regular expression: {error}")
    return str(regex)
