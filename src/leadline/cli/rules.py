"""``leadline rules``: list and describe the available rules."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final, TypedDict

import typer
from rich.text import Text

from leadline.cli.arguments import complete_rule
from leadline.cli.console import console, echo_json
from leadline.cli.table import print_lines, table_width
from leadline.config.options import format_value
from leadline.errors import ConfigurationError
from leadline.records.json_object import JsonObject
from leadline.rules import registry
from leadline.rules.documentation import ITEM, Documentation, ParameterDoc, document
from leadline.rules.registry import grouped_rules

_MAX_WIDTH: Final = 100
_INDENT: Final = "  "


def rules(
    name: Annotated[
        str | None, typer.Argument(help="A rule to describe; default: list all rules.", autocompletion=complete_rule)
    ] = None,
    new: Annotated[str | None, typer.Option(help="Write a template for a custom rule to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the rules by group, or describe one.

    The description contains what a rule fires on, why it matters, how it decides, and its blind spots.
    """
    if new is not None:
        _write_template(new)
    elif name is not None:
        found = document(registry.find_rule(name), registry.canonical(name))
        _show(_to_dict(found, _group_of(found.name)), _describe(found, console().width), as_json=as_json)
    else:
        groups = {title: [_documented(rule) for rule in names] for title, names in grouped_rules().items()}
        listed = [_to_dict(rule, title) for title, group in groups.items() for rule in group]
        _show(listed, _list(groups, table_width()), as_json=as_json)


def _show(value: Any, text: Text, *, as_json: bool) -> None:
    if as_json:
        echo_json(value)
    else:
        print_lines(text)


def _documented(name: str) -> Documentation:
    return document(registry.find_rule(name), name)


def _group_of(name: str) -> str | None:
    return next((title for title, names in grouped_rules().items() if name in names), None)


class DocumentedRule(TypedDict):
    """A rule in what ``leadline rules --json`` prints."""

    name: str
    group: str | None
    sagemaker_names: list[str]
    is_default: bool
    summary: str
    sections: dict[str, str]
    parameters: list[JsonObject]
    """Each a ``Parameter``."""


def _to_dict(rule: Documentation, group: str | None) -> DocumentedRule:
    return {
        "name": rule.name,
        "group": group,
        "sagemaker_names": list(rule.amazon),
        "is_default": rule.name in registry.DEFAULT,
        "summary": rule.summary,
        "sections": dict(rule.sections),
        "parameters": [asdict(parameter) for parameter in rule.parameters],
    }


def _list(groups: dict[str, list[Documentation]], width: int | None) -> Text:
    """Each rule with its name, whether it is a default, when it fires, and its names in SageMaker Debugger.

    Args:
        width: The width to which lines are wrapped; None: one line for each rule.
    """
    names = max(len(rule.name) for group in groups.values() for rule in group)
    lines = []
    for title, group in groups.items():
        lines.append(Text(f"{title}: fires when", style="bold"))
        for rule in group:
            mark = "default" if rule.name in registry.DEFAULT else ""
            start = f"{_INDENT}{rule.name:{names}}  {mark:7}  "
            text = (
                rule.summary.removeprefix("Fires when ")
                .replace("Never fires: ", "never; ")
                .rstrip(".")
                .replace("``", "")
            )
            text += f" [{', '.join(rule.amazon)}]" if rule.amazon else ""
            lines.append(Text(start + text if width is None else _hanging(start, text, width)))
            lines[-1].stylize("dim", len(_INDENT) + names, len(start))
    return Text("\n").join(lines)


def _hanging(start: str, text: str, width: int) -> str:
    return start + _wrapped(text, width, " " * len(start)).lstrip()


def _describe(rule: Documentation, width: int) -> Text:
    """The documentation of a rule, with its texts wrapped to a width."""
    width = min(width, _MAX_WIDTH)
    aliases = f"  ({', '.join(rule.amazon)} in SageMaker Debugger)" if rule.amazon else ""
    lines = [Text.assemble((rule.name, "bold"), aliases), Text(_wrapped(rule.summary, width))]
    for heading, text in rule.sections:
        lines += [Text(), Text(heading, style="bold")]
        lines += [
            Text(_hanging(_INDENT + ITEM * line.startswith(ITEM), line.removeprefix(ITEM), width))
            for line in text.split("\n")
        ]
    if rule.parameters:
        lines += [Text(), Text("Parameters", style="bold"), *_parameters(rule.parameters, width)]
    return Text("\n").join([*lines, Text(), Text(f"{_INDENT}leadline run --rule {rule.name} train.py", style="dim")])


def _parameters(parameters: tuple[ParameterDoc, ...], width: int) -> Iterator[Text]:
    """Yield for each parameter its name, the values that it takes, its default, and its description."""
    indent = " " * (len(_INDENT) + max(len(parameter.name) for parameter in parameters) + 2)
    for parameter in parameters:
        default = "required" if parameter.is_required else f"default {_format_default(parameter.default)}"
        name = f"{_INDENT}{parameter.name}".ljust(len(indent))
        yield Text(_hanging(name, f"{parameter.takes}, {default}", width))
        if parameter.about:
            yield Text(_wrapped(parameter.about, width, indent))


def _format_default(value: Any) -> str:
    return "none" if value is None or value in ("", ()) else format_value(value)


def _wrapped(text: str, width: int, indent: str = "") -> str:
    """Wrap the text of a docstring, without the marks of its code."""
    return textwrap.fill(
        text.replace("``", ""),
        max(width, len(indent) + 20),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _write_template(path: str) -> None:
    """Write a working rule that is named after the file.

    Raises:
        ConfigurationError: The file exists, or its name is not a valid module name.
    """
    stem = os.path.basename(path).removesuffix(".py")
    if not path.endswith(".py") or not stem.isidentifier():
        raise ConfigurationError(f"--new {path}: a rule file must have a module name, such as my_rule.py")
    name = "".join(part[:1].upper() + part[1:] for part in stem.split("_"))
    template = os.path.join(os.path.dirname(__file__), "rule_template.py")
    with open(template, encoding="utf-8") as file:
        text = file.read().replace("LossAbove", name).replace("THIS_FILE", path)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigurationError(f"--new {path}: the file already exists; choose another name") from None
    except OSError as error:
        raise ConfigurationError(f"--new {path}: {error.strerror}") from error
    console().print(f"{path} contains the rule {name}; try it: leadline run --rule {path}:{name}:limit=3 train.py")
