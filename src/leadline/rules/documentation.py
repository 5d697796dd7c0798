"""Documentation of a rule, read from its docstring."""

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
from leadline.rules.rule import Rule

_HEADING: Final = re.compile(r"(\w[\w ]*):")
_ENTRY: Final = re.compile(r"(\w+): (.*)")
ITEM: Final = "- "
"""With what the item of a list begins."""


@dataclass(frozen=True, slots=True)
class ParameterDoc:
    """The documentation of a parameter."""

    name: str
    takes: str
    """The type and bounds, such as ``a number > 0``."""
    default: Any
    """None also for a required parameter."""
    about: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Documentation:
    """The documentation of a rule."""

    name: str
    """The name in Leadline."""
    amazon: tuple[str, ...]
    """The names in SageMaker Debugger."""
    summary: str
    """The condition on which it fires."""
    sections: tuple[tuple[str, str], ...]
    """Heading and text of each section: ``Why it matters``, ``How it decides`` …; an item of a list is a line."""
    parameters: tuple[ParameterDoc, ...]

    def section(self, heading: str) -> str:
        """Return the text of a section; "" if there is none."""
        return dict(self.sections).get(heading, "")


@lru_cache(maxsize=256)
def read_documentation(rule: str) -> Documentation | None:
    """Return the documentation of a rule.

    Args:
        rule: Its name in Leadline or in SageMaker Debugger.
    Returns:
        None for a custom rule, whose file is not executed just to read it, and for an unknown name.
    """
    if registry.is_custom(rule):
        return None
    try:
        rule_class = registry.find_rule(rule)
    except LeadlineError:
        return None
    return document(rule_class, registry.canonical(rule))


def document(rule_class: type[Rule], name: str) -> Documentation:
    """Return the documentation of the class of a rule.

    Args:
        name: The name under which it is registered, or by which a user selects it.
    """
    summary, sections = _parts(inspect.getdoc(rule_class) or "")
    about = _entries(sections.pop("Args", []))
    fields = {field.name: field for field in msgspec.structs.fields(rule_class)}
    parameters = tuple(
        ParameterDoc(field, describe(kind), _default(fields[field]), about.get(field, ""), fields[field].required)
        for field, kind in parameter_types(rule_class).items()
    )
    amazon = tuple(alias for alias, canonical in registry.AMAZON.items() if canonical == name)
    texts = tuple((heading, _joined(lines)) for heading, lines in sections.items() if heading != "Attributes")
    return Documentation(name, amazon, summary, texts, parameters)


def _default(field: Any) -> Any:
    return None if field.default is msgspec.NODEFAULT else field.default


def _parts(text: str) -> tuple[str, dict[str, list[str]]]:
    """Return the text before the first heading, and the lines of each section."""
    summary: list[str] = []
    sections: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        heading = _HEADING.fullmatch(line)
        if heading:
            lines = sections.setdefault(heading[1], [])
        elif lines is not None:
            lines.append(line.strip())
        elif lines is None and line.strip():
            summary.append(line.strip())
    return " ".join(summary), sections


def _joined(lines: list[str]) -> str:
    """Return a text with one line for each paragraph, and for each item of a list."""
    texts = [""]
    for line in lines:
        if not line or line.startswith(ITEM):
            texts.append("")
        texts[-1] += f" {line}"
    return "\n".join(text for text in map(str.strip, texts) if text)


def _entries(lines: list[str]) -> dict[str, str]:
    """Parse entries ``name: text``, where the text may continue on the next lines."""
    entries: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if entry:
            name, entries[entry[1]] = entry[1], entry[2]
        elif name and line:
            entries[name] += f" {line}"
    return entries
