"""Parsing and validation of the parameters of rules and actions."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.json_object import JsonObject
from leadline.records.names import display_name as display_name

_DROPPED = {
    "scan_interval_us": "SageMaker Debugger's scan interval has no counterpart: rules are evaluated as data arrives",
}
"""Parameters of SageMaker Debugger's rules that are not needed, and why."""


def read_parameters(owner: type, given: Mapping[str, Any]) -> JsonObject:
    """Convert values of a command line, a form or a file to the types of the fields.

    Raises:
        UnknownNameError: There is no such parameter.
        ConfigurationError: A value is not valid for its parameter.
    """
    fields = parameter_types(owner)
    for name in given:
        if name not in fields:
            raise UnknownNameError(f"parameter of {display_name(owner)}", name, fields, hint=_DROPPED.get(name, ""))
    return {name: _convert(owner, name, value, is_strict=not isinstance(value, str)) for name, value in given.items()}


def check_parameters(owner: msgspec.Struct) -> None:
    """Check each field of a rule or action that was created in code.

    Raises:
        ConfigurationError: A value is not valid for its parameter.
    """
    for name in parameter_types(type(owner)):
        _convert(type(owner), name, getattr(owner, name), is_strict=True)


@lru_cache
def parameter_types(owner: type) -> dict[str, object]:
    """Return the types of the parameters with their bounds, in the order of definition."""
    hints = typing.get_type_hints(owner, include_extras=True)
    return {name: hints[name] for name in owner.__struct_fields__}  # type: ignore[attr-defined]


def describe(kind: Any) -> str:
    """Describe the values that a parameter takes: ``a number >= 0``."""
    return " or ".join(_describe(member) for member in _members(kind))


def _convert(owner: type, name: str, value: Any, *, is_strict: bool) -> Any:
    kind = parameter_types(owner)[name]
    try:
        return msgspec.convert(value if is_strict else _from_text(kind, value), kind, strict=is_strict)
    except msgspec.ValidationError as error:
        message = f"{display_name(owner)}: {name} must be {describe(kind)}, not {value!r}"
        raise ConfigurationError(message) from error


def _from_text(kind: Any, text: str) -> Any:
    """Parse what msgspec does not: ``none``, blanks around numbers, and lists."""
    members = plain_types(kind)
    if type(None) in members and text.strip().lower() == "none":
        return None
    if any(typing.get_origin(member) is tuple for member in members):
        return _items(text.strip())
    return text if str in members else text.strip()


def _items(text: str) -> Any:
    """Parse a list: separated by commas, or as JSON, for items that contain commas."""
    if text.startswith("["):
        with suppress(ValueError):
            items = json.loads(text)
            if all(isinstance(item, str) for item in items):
                return items
    items = [item.strip() for item in text.split(",")]
    return text if "" in items else items


def plain_types(kind: Any) -> list[Any]:
    """Return the types of a parameter's values, without bounds."""
    return [_plain(member) for member in _members(kind)]


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, None first."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(sorted(typing.get_args(kind), key=lambda member: member is not type(None)))
    return (kind,)


def _plain(kind: Any) -> Any:
    return typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind


def _describe(kind: Any) -> str:
    plain = _plain(kind)
    names = {type(None): "none", bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    if typing.get_origin(plain) is tuple:
        return "a list (comma-separated)"
    if typing.get_origin(plain) is typing.Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(plain)))
    bounds = [meta for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    signs = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    values = [(sign, getattr(meta, field)) for meta in bounds for field, sign in signs]
    limits = [f"{sign} {limit:g}" for sign, limit in values if limit is not None]
    return " ".join([names.get(plain, "a value"), " and ".join(limits)]).strip()
