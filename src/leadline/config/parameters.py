"""Parsing and validation of the parameters of rules and actions."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.names import display_name as display_name

_INTEGER: Final = re.compile(r"[+-]?\d+")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_WORDS: Final = {"true": True, "false": False}
_ABSENT: Final = object()


def read_parameters(owner: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values of a command line or file to the types of the fields.

    Raises:
        UnknownNameError: There is no such parameter.
        ConfigurationError: A value is not valid for its parameter.
    """
    fields = parameter_types(owner)
    read = {}
    for name, value in given.items():
        if name not in fields:
            raise UnknownNameError(f"parameter of {display_name(owner)}", name, fields)
        read[name] = _read(owner, name, fields[name], value)
    return read


def check_parameters(owner: msgspec.Struct) -> None:
    """Check each field of a rule or action that was created in code.

    Raises:
        ConfigurationError: A value is not valid for its parameter.
    """
    for name, kind in parameter_types(type(owner)).items():
        _check(type(owner), name, kind, getattr(owner, name))


@lru_cache
def parameter_types(owner: type) -> dict[str, Any]:
    """Return the types of the parameters with their bounds, in the order of definition."""
    hints = typing.get_type_hints(owner, include_extras=True)
    return {name: hints[name] for name in owner.__struct_fields__}  # type: ignore[attr-defined]


def describe(kind: Any) -> str:
    """Describe the values that a parameter takes: ``a number >= 0``."""
    return " or ".join(_describe(member) for member in _members(kind))


def _read(owner: type, name: str, kind: Any, value: Any) -> Any:
    for member in _members(kind):
        read = _read_as(_plain(member), value)
        if read is not _ABSENT:
            return _check(owner, name, kind, read)
    raise _invalid(owner, name, kind, value)


def _read_as(kind: Any, value: Any) -> Any:
    """Convert a value to one plain type; ``_ABSENT`` if it is not of that type."""
    text = value.strip() if isinstance(value, str) else None
    if kind is type(None):
        return None if value is None or (text is not None and text.lower() in ("none", "")) else _ABSENT
    if kind is bool:
        return value if isinstance(value, bool) else _WORDS.get((text or "").lower(), _ABSENT)
    if kind is int:
        if text is not None:
            return int(text) if _INTEGER.fullmatch(text) else _ABSENT
        return value if isinstance(value, int) and not isinstance(value, bool) else _ABSENT
    if kind is float:
        if text is not None:
            return float(text) if _NUMBER.fullmatch(text) else _ABSENT
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _ABSENT
    if typing.get_origin(kind) is tuple:
        parts: Iterable[Any] = re.split(r"\s*,\s*", text) if text is not None else value
        if not isinstance(parts, (list, tuple)) or not parts or "" in parts:
            return _ABSENT
        read = tuple(_read_as(_plain(typing.get_args(kind)[0]), part) for part in parts)
        return _ABSENT if _ABSENT in read else read
    if typing.get_origin(kind) is typing.Literal:
        return value if value in typing.get_args(kind) else _ABSENT
    return value if kind in (str, Any) and (kind is Any or isinstance(value, str)) else _ABSENT


def _check(owner: type, name: str, kind: Any, value: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _invalid(owner, name, kind, value) from error


def _invalid(owner: type, name: str, kind: Any, value: Any) -> ConfigurationError:
    return ConfigurationError(f"{display_name(owner)}: {name} must be {describe(kind)}, not {value!r}")


def _members(kind: Any) -> tuple[Any, ...]:
    """The members of a union, None first, so that the text ``none`` is read as None."""
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
