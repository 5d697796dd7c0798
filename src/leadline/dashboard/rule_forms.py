"""Form descriptions of the built-in rules and their parameters."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from leadline.config.options import format_value
from leadline.config.parameters import plain_types
from leadline.rules import registry
from leadline.rules.documentation import read_documentation


@dataclass(frozen=True, slots=True)
class ParameterField:
    """A parameter of a rule, as a field of a form."""

    name: str
    is_number: bool
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
    documentation = read_documentation(name)
    assert documentation is not None
    about = {parameter.name: parameter.about for parameter in documentation.parameters}
    fields = msgspec.structs.fields(registry.find_rule(name))
    parameters = tuple(_field(field, about[field.name]) for field in fields)
    return RuleChoice(name, documentation.summary, parameters, name in registry.DEFAULT)


def _field(field: Any, about: str) -> ParameterField:
    kinds = plain_types(field.type)
    choices: tuple[str, ...] = ("true", "false") if bool in kinds else ()
    for kind in kinds:
        choices += tuple(map(str, typing.get_args(kind))) if typing.get_origin(kind) is typing.Literal else ()
    is_number = int in kinds or float in kinds
    return ParameterField(field.name, is_number, _format_default(field.default), choices, bool(field.required), about)


def _format_default(value: Any) -> str:
    if value is None or value is msgspec.NODEFAULT or value == ():
        return ""
    return f"{value:g}" if isinstance(value, float) else format_value(value)
