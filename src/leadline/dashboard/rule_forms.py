"""Form descriptions of the built-in rules and their parameters."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec

from leadline.config.options import PARAMETER
from leadline.errors import ConfigurationError
from leadline.rules import registry


@dataclass(frozen=True, slots=True)
class ParameterField:
    """A parameter of a rule, as a field of a form."""

    name: str
    kind: Literal["number", "integer", "boolean", "choice", "text"]
    default: str
    """Default as text; "": none, or required."""
    choices: tuple[str, ...]
    is_required: bool
    about: str


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """A rule that can be chosen."""

    name: str
    about: str
    """Summary of what it fires on."""
    parameters: tuple[ParameterField, ...]
    is_default: bool


@cache
def rule_choices() -> tuple[RuleChoice, ...]:
    """Return all built-in rules by name."""
    return tuple(_choice(name) for name in sorted(registry.rule_names()))


def _choice(name: str) -> RuleChoice:
    rule_class = registry.find_rule(name)
    document = inspect.getdoc(rule_class) or ""
    descriptions = _arguments(document)
    fields = msgspec.structs.fields(rule_class)
    hints = typing.get_type_hints(rule_class)
    parameters = tuple(
        _parameter(field, hints.get(field.name, field.type), descriptions.get(field.name, "")) for field in fields
    )
    about = document.split("\n\n", 1)[0].replace("\n", " ")
    return RuleChoice(name, about, parameters, name in registry.DEFAULT)


def _parameter(field: Any, hint: Any, about: str) -> ParameterField:
    field_type, choices = _field_type(hint)
    default = "" if field.required else _format_default(field.default)
    return ParameterField(field.name, field_type, default, choices, bool(field.required), about)


def _field_type(hint: Any) -> tuple[Literal["number", "integer", "boolean", "choice", "text"], tuple[str, ...]]:
    if typing.get_origin(hint) is typing.Annotated:
        return _field_type(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        first = next(argument for argument in typing.get_args(hint) if argument is not type(None))
        return _field_type(first)
    if typing.get_origin(hint) is Literal:
        return "choice", tuple(map(str, typing.get_args(hint)))
    if hint is bool:
        return "boolean", ("true", "false")
    return ("integer", ()) if hint is int else ("number", ()) if hint is float else ("text", ())


def _format_default(value: Any) -> str:
    """Format a default as option text."""
    if value is None or value is msgspec.NODEFAULT or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        ",".join(map(str, value))
        if isinstance(value, (tuple, list))
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _arguments(document: str) -> dict[str, str]:
    """Parse the ``Args`` section of a docstring: description by name."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", document, re.MULTILINE)
    if section is None:
        return {}
    matches = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in matches}


def rule_option(rule: str, parameters: Mapping[str, str]) -> str:
    """Return a rule and its parameters as a value of ``--rule``: ``loss_spike:ratio=3,patience=5``.

    Raises:
        ConfigurationError: A value cannot be written on the command line: it looks like another parameter.
    """
    parts = []
    for key, value in parameters.items():
        if not key.isidentifier():
            raise ConfigurationError(f"{key!r} is not a parameter name")
        if PARAMETER.search(f",{value}") or PARAMETER.search(value) or "\n" in value:
            raise ConfigurationError(f"{key}: {value!r} cannot be passed with --rule; put it into leadline.toml")
        parts.append(f"{key}={value}")
    return f"{rule}:{','.join(parts)}" if parts else rule
