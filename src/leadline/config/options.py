"""The small language of options: ``NAME[:key=value,…]``, ``AS=NAME``, ``RULE[@status]=ACTION``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.errors import ConfigurationError, UnknownNameError, closest
from leadline.records.names import COLLECTIONS, MODES, RULE_STATUSES, SCALAR_COLLECTIONS, is_module_collection
from leadline.records.plan import CaptureItem, Schedule
from leadline.statistics.definitions import BASIC, find_statistic

CAPTURED: Final = (
    "all", "losses", "metrics", "scalars", "weights", "biases", "gradients",
    "inputs", "outputs", "layers", "labels", "predictions", "hyperparameters", "gradient_norms", "optimizer_variables",
    "checks",
)  # fmt: skip
"""The collections that this version captures; beside them ``relu_output`` and the like."""
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
)

_TRAIN_ONLY: Final = frozenset({
    "weights", "biases", "gradients", "gradient_norms", "optimizer_variables", "hyperparameters"
})  # fmt: skip
_TYPING_ERROR: Final = 0.84
"""A name as like as this to a collection's is taken for a slip of the keyboard."""
_PARAMETER: Final = re.compile(r",(?=[A-Za-z_]\w*=)")
_ALIAS: Final = re.compile(r"^([A-Za-z_][\w-]*)=(.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Spec:
    """A name with parameters, as given."""

    name: str
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleOption:
    """``--rule [AS=]NAME[:key=value,…]``."""

    alias: str
    rule: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionOption:
    """``--on RULE[@status]=ACTION[:key=value,…]``."""

    rule: str
    status: str
    action: str
    parameters: dict[str, Any] = field(default_factory=dict)


def parse_spec(text: str, *, option: str) -> Spec:
    """``NAME[:key=value,…]``: the first colon ends the name; a comma begins a parameter only before ``identifier=``.

    A file as the name keeps its own colon: ``my_rules.py:LossAbove:limit=3``.

    Raises:
        ConfigurationError: It has another form.
    """
    name, rest = _split_name(text)
    if not name:
        raise ConfigurationError(f"--{option} {text!r} begins with no name; write NAME or NAME:key=value,key=value")
    parameters: dict[str, str] = {}
    for part in _PARAMETER.split(rest) if rest else []:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigurationError(f"--{option} {text!r}: {part!r} is no key=value")
        if key in parameters:
            raise ConfigurationError(f"--{option} {text!r} gives {key!r} twice")
        parameters[key] = value
    return Spec(name, parameters)


def _split_name(text: str) -> tuple[str, str]:
    first, _, rest = text.partition(":")
    looks_like_place = first.endswith(".py") or ("." in first and first.replace(".", "").isidentifier())
    if looks_like_place and rest:
        name, _, rest = rest.partition(":")
        return f"{first}:{name}", rest
    return first, rest


def parse_rule(text: str) -> RuleOption:
    """``[AS=]NAME[:key=value,…]``.

    Raises:
        ConfigurationError: It has another form.
    """
    head, colon, rest = text.partition(":")
    match = _ALIAS.match(head)
    alias, body = (match[1], match[2] + colon + rest) if match else ("", text)
    spec = parse_spec(body, option="rule")
    return RuleOption(alias or _default_alias(spec.name), spec.name, dict(spec.parameters))


def _default_alias(name: str) -> str:
    own = name.rpartition(":")[2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", own).lower()


def parse_action(text: str) -> ActionOption:
    """``RULE[@status]=ACTION[:key=value,…]``.

    Raises:
        ConfigurationError: It has another form.
        UnknownNameError: No status has that name.
    """
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        raise ConfigurationError(f"--on {text!r}: write RULE=ACTION, for example exploding_tensor=stop_training")
    rule, _, status = left.partition("@")
    if status and status not in RULE_STATUSES:
        raise UnknownNameError("rule status", status, RULE_STATUSES)
    if status not in ("", "IssuesFound"):
        raise ConfigurationError(f"--on {text!r}: actions follow IssuesFound only in this version, not {status}")
    spec = parse_spec(right, option="on")
    return ActionOption(rule, status or "IssuesFound", spec.name, dict(spec.parameters))


def parse_capture(text: str) -> CaptureItem:
    """``COLLECTION[:key=value,…]``; lists are separated by commas: ``gradients:statistics=l2,max,every=1``.

    Raises:
        ConfigurationError: It has another form.
        UnknownNameError: No collection, key, mode or statistic has that name.
    """
    spec = parse_spec(text, option="capture")
    return capture_item(spec.name, spec.parameters)


def capture_item(collection: str, given: Mapping[str, Any]) -> CaptureItem:
    """What a capture option, or a table of the configuration file, asks for."""
    custom = collection if is_custom_collection(collection, given) else None
    if custom is None and collection not in COLLECTIONS and not is_module_collection(collection):
        hint = "a collection of your own needs regex= or modules="
        raise UnknownNameError("collection", collection, CAPTURED, hint=hint)
    if custom is None and collection not in CAPTURED and not is_module_collection(collection):
        raise ConfigurationError(
            f"the collection {collection!r} is not captured by this version; it captures {', '.join(CAPTURED[1:])}"
        )
    for key in given:
        if key not in CAPTURE_KEYS:
            raise UnknownNameError(f"key of --capture {collection}", key, CAPTURE_KEYS)
    where = f"--capture {collection}"
    raw = _flag(given.get("raw", False), where)
    statistics = tuple(find_statistic(each).name for each in _listed(given.get("statistics", ())))
    if not statistics and not (raw and "statistics" not in given):
        statistics = default_statistics(collection)
    modes = _names(given.get("modes", _default_modes(collection)), MODES, "mode")
    if collection in _TRAIN_ONLY and modes != ("train",):
        raise ConfigurationError(f"{where}: modes={','.join(modes)}: {collection} are captured in train steps only")
    return CaptureItem(
        collection=None if custom else collection,
        regex=_regex(given, "regex", where),
        statistics=statistics,
        raw=raw,
        schedule=_schedule(given, where),
        modes=modes,
        source="option",
        modules=_regex(given, "modules", where),
        custom=custom,
    )


def is_custom_collection(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a name is that of a collection of the user's own: it says what it selects, and is like no other's."""
    if name in COLLECTIONS or is_module_collection(name) or not name.replace("-", "_").isidentifier():
        return False
    return ("regex" in given or "modules" in given) and closest(name, COLLECTIONS, _TYPING_ERROR) is None


def _default_modes(collection: str) -> tuple[str, ...]:
    """Numbers that every mode has are captured in all of them."""
    return ("train", "eval", "predict") if collection in ("losses", "metrics", "scalars") else ("train",)


def default_statistics(collection: str) -> tuple[str, ...]:
    """The statistics that are taken of a collection unless told otherwise."""
    if collection in SCALAR_COLLECTIONS:
        return ("value",)
    if collection in ("gradients", "optimizer_variables") or is_module_collection(collection):
        return BASIC
    updates = (*BASIC, "update_ratio")
    return (*updates, "value") if collection == "all" else updates


def _schedule(given: Mapping[str, Any], where: str) -> Schedule:
    every = _whole(given, "every", where, least=1)
    every_seconds = _seconds(given, where)
    steps = tuple(int(_as_whole(each, f"{where}: steps", 0)) for each in _listed(given.get("steps", ())))
    start, end = _whole(given, "start", where, least=0), _whole(given, "end", where, least=1)
    if end is not None and end <= (start or 0):
        raise ConfigurationError(f"{where}: end ({end}) must be above start ({start or 0})")
    if every is None and every_seconds is None and not steps:
        every = 50
    return Schedule(every, every_seconds, start or 0, end, steps)


def _whole(given: Mapping[str, Any], key: str, where: str, *, least: int) -> int | None:
    return None if given.get(key) is None else _as_whole(given[key], f"{where}: {key}", least)


def _as_whole(value: Any, where: str, least: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise ConfigurationError(f"{where} must be a whole number, not {value!r}") from None
    if number < least:
        raise ConfigurationError(f"{where} must be at least {least}, not {number}")
    return number


def _seconds(given: Mapping[str, Any], where: str) -> float | None:
    if given.get("every_seconds") is None:
        return None
    try:
        number = float(given["every_seconds"])
    except ValueError:
        raise ConfigurationError(f"{where}: every_seconds must be a number, not {given['every_seconds']!r}") from None
    if not 0 < number < float("inf"):
        raise ConfigurationError(f"{where}: every_seconds must be above 0, not {number:g}")
    return number


def _flag(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).lower() not in known:
        raise ConfigurationError(f"{where}: raw must be true or false, not {value!r}")
    return known[str(value).lower()]


def _names(value: Any, known: Iterable[str], kind: str) -> tuple[str, ...]:
    names = _listed(value)
    known = tuple(known)
    for each in names:
        if each not in known:
            raise UnknownNameError(kind, each, known)
    return tuple(names)


def _listed(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    return [str(each).strip() for each in parts if str(each).strip()]


def _regex(given: Mapping[str, Any], key: str, where: str) -> str | None:
    regex = given.get(key)
    if regex is None:
        return None
    try:
        re.compile(str(regex))
    except re.error as error:
        raise ConfigurationError(f"{where}: {key} {regex!r} is no regular expression: {error}") from None
    return str(regex)
