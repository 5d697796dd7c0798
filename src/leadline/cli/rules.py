"""``leadline rules``: list and describe the available rules."""

from __future__ import annotations

import inspect
import os
import re
from typing import Annotated, Any

import msgspec
import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.console import console
from leadline.errors import ConfigurationError
from leadline.rules import registry


def rules(
    name: Annotated[str | None, typer.Argument(help="A rule to describe; default: list all rules.")] = None,
    new: Annotated[str | None, typer.Option(help="Write a template for a custom rule to this file.")] = None,
) -> None:
    """List the rules, or describe one.

    The description contains what a rule fires on, why it matters, how it decides, and its blind spots.
    """
    if new is not None:
        _write_template(new)
        return
    if name is None:
        console().print(_list())
        return
    _describe(name)


def _list() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name in sorted(registry.rule_names()):
        mark = "default" if name in registry.DEFAULT else ""
        table.add_row(Text(name), Text(mark, style="dim"), Text(_first_line(registry.find_rule(name))))
    return table


def _first_line(rule: type[Any]) -> str:
    return (inspect.getdoc(rule) or "").split("\n\n", 1)[0].replace("\n", " ")


def _describe(name: str) -> None:
    rule = registry.find_rule(name)
    terminal = console()
    canonical = registry.canonical(name)
    aliases = [amazon for amazon, ours in registry.AMAZON.items() if ours == canonical]
    terminal.print(Text.assemble((canonical, "bold"), f"  ({', '.join(aliases)})" if aliases else ""))
    for paragraph in (inspect.getdoc(rule) or "").split("\n"):
        heading = re.fullmatch(r"(\w[\w ]*):", paragraph)
        terminal.print(Text(heading[1], style="bold") if heading else Text(paragraph))
    terminal.print(Text("\nParameters", style="bold"))
    table = Table.grid(padding=(0, 2))
    for field in msgspec.structs.fields(rule):
        default = "required" if field.required else repr(field.default)
        table.add_row(Text(field.name), Text(_type(field.type), style="dim"), Text(default))
    terminal.print(Padding(table, (0, 0, 0, 4)))
    terminal.print(f"\n  leadline run --rule {canonical} train.py", style="dim")


def _type(annotation: Any) -> str:
    inner = getattr(annotation, "__origin__", annotation) if hasattr(annotation, "__metadata__") else annotation
    return inner.__name__ if isinstance(inner, type) else str(inner).replace("typing.", "")


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
