"""Rules as forms: what there is to choose, its parameters with their types, defaults and documentation."""

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
    kind: Literal["number", "whole", "yes", "choice", "text"]
    default: str
    """As it is written; "": none, or it must be given."""
    choices: tuple[str, ...]
    is_required: bool
    about: str


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """A rule that can be chosen."""

    name: str
    about: str
    """What it fires on, in a sentence or two."""
    parameters: tuple[ParameterField, ...]
    is_default: bool


@cache
def rule_choices() -> tuple[RuleChoice, ...]:
    """All built-in rules, by name."""
    return tuple(_choice(name) for name in sorted(registry.rule_names()))


def _choice(name: str) -> RuleChoice:
    kind = registry.find_rule(name)
    document = inspect.getdoc(kind) or ""
    told = _arguments(document)
    fields = msgspec.structs.fields(kind)
    hints = typing.get_type_hints(kind)
    parameters = tuple(_parameter(each, hints.get(each.name, each.type), told.get(each.name, "")) for each in fields)
    about = document.split("\n\n", 1)[0].replace("\n", " ")
    return RuleChoice(name, about, parameters, name in registry.DEFAULT)


def _parameter(field: Any, hint: Any, about: str) -> ParameterField:
    kind, choices = _kind(hint)
    default = "" if field.required else _written(field.default)
    return ParameterField(field.name, kind, default, choices, bool(field.required), about)


def _kind(hint: Any) -> tuple[Literal["number", "whole", "yes", "choice", "text"], tuple[str, ...]]:
    if typing.get_origin(hint) is typing.Annotated:
        return _kind(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        first = next(each for each in typing.get_args(hint) if each is not type(None))
        return _kind(first)
    if typing.get_origin(hint) is Literal:
        return "choice", tuple(map(str, typing.get_args(hint)))
    if hint is bool:
        return "yes", ("true", "false")
    return ("whole", ()) if hint is int else ("number", ()) if hint is float else ("text", ())


def _written(value: Any) -> str:
    """A default as somebody would write it."""
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
    """What a docstring's ``Args`` say, by name."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", document, re.MULTILINE)
    if section is None:
        return {}
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1], re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in found}


def parameter_words(rule: str, given: Mapping[str, str]) -> str:
    """A rule and its parameters in the words of ``--rule``: ``loss_spike:ratio=3,patience=5``.

    Raises:
        ConfigurationError: A value cannot be written so: it looks like another parameter.
    """
    parts = []
    for key, value in given.items():
        if not key.isidentifier():
            raise ConfigurationError(f"{key!r} is no parameter's name")
        if PARAMETER.search(f",{value}") or PARAMETER.search(value) or "\n" in value:
            raise ConfigurationError(f"{key}: {value!r} cannot be written behind --rule; put it into leadline.toml")
        parts.append(f"{key}={value}")
    return f"{rule}:{','.join(parts)}" if parts else rule
