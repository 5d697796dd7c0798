"""What a rule says of itself, in parts that a page, a report or a terminal can lay out."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from leadline.config.parameters import describe, parameter_types
from leadline.errors import LeadlineError
from leadline.rules import registry

_HEADING: Final = re.compile(r"(\w[\w ]*):")
_ENTRY: Final = re.compile(r"(\w+): (.*)")


@dataclass(frozen=True, slots=True)
class ParameterDoc:
    """A parameter of a rule."""

    name: str
    takes: str
    """``a number > 0``."""
    default: Any
    """None also where it has to be given."""
    about: str


@dataclass(frozen=True, slots=True)
class Documentation:
    """A rule's docstring."""

    name: str
    """Its own name."""
    amazon: tuple[str, ...]
    """Amazon's names for it."""
    summary: str
    """What it fires on."""
    sections: tuple[tuple[str, str], ...]
    """Heading and text: ``Why it matters``, ``How it decides`` …"""
    parameters: tuple[ParameterDoc, ...]

    def section(self, heading: str) -> str:
        """The text under a heading; "": there is none."""
        return dict(self.sections).get(heading, "")


@lru_cache(maxsize=256)
def read_documentation(rule: str) -> Documentation | None:
    """What a rule says of itself.

    Args:
        rule: Its name, or Amazon's.
    Returns:
        None: a rule of somebody's own, whose file is not run for being looked at; or there is none of that name.
    """
    if registry.is_custom(rule):
        return None
    try:
        found = registry.find_rule(rule)
    except LeadlineError:
        return None
    own = registry.canonical(rule)
    summary, sections = _parts(inspect.getdoc(found) or "")
    about = _entries(sections.pop("Args", []))
    fields = {field.name: field for field in msgspec.structs.fields(found)}
    parameters = tuple(
        ParameterDoc(name, describe(kind), _default(fields[name]), about.get(name, ""))
        for name, kind in parameter_types(found).items()
    )
    amazon = tuple(name for name, ours in registry.AMAZON.items() if ours == own)
    told = tuple((heading, " ".join(lines)) for heading, lines in sections.items() if heading != "Attributes")
    return Documentation(own, amazon, summary, told, parameters)


def _default(field: Any) -> Any:
    return None if field.default is msgspec.NODEFAULT else field.default


def _parts(text: str) -> tuple[str, dict[str, list[str]]]:
    """What stands before the first heading, up to a blank line, and the lines below each heading."""
    summary: list[str] = []
    sections: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        heading = _HEADING.fullmatch(line)
        if heading:
            lines = sections.setdefault(heading[1], [])
        elif lines is not None and line.strip():
            lines.append(line.strip())
        elif lines is None and line.strip():
            summary.append(line.strip())
    return " ".join(summary), sections


def _entries(lines: list[str]) -> dict[str, str]:
    """``name: text`` by name, where the text may go on in the next line."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if entry:
            name, found[entry[1]] = entry[1], entry[2]
        elif name:
            found[name] += f" {line}"
    return found
