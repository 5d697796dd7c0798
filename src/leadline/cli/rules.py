"""``leadline rules``: the rules there are, and what each does."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any

import msgspec
import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.render import console
from leadline.rules import registry


def rules(
    name: Annotated[str | None, typer.Argument(help="A rule; default: all of them in a list.")] = None,
) -> None:
    """List the rules, or say all about one: what it fires on, why, how it decides, what it cannot see."""
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
    own = registry.canonical(name)
    others = [amazon for amazon, ours in registry.AMAZON.items() if ours == own]
    terminal.print(Text.assemble((own, "bold"), f"  ({', '.join(others)})" if others else ""))
    for paragraph in (inspect.getdoc(rule) or "").split("\n"):
        heading = re.fullmatch(r"(\w[\w ]*):", paragraph)
        terminal.print(Text(heading[1], style="bold") if heading else Text(paragraph))
    terminal.print(Text("\nParameters", style="bold"))
    table = Table.grid(padding=(0, 2))
    for field in msgspec.structs.fields(rule):
        default = "required" if field.required else repr(field.default)
        table.add_row(Text(field.name), Text(_type(field.type), style="dim"), Text(default))
    terminal.print(Padding(table, (0, 0, 0, 4)))
    terminal.print(f"\n  leadline run --rule {own} train.py", style="dim")


def _type(annotation: Any) -> str:
    inner = getattr(annotation, "__origin__", annotation) if hasattr(annotation, "__metadata__") else annotation
    return inner.__name__ if isinstance(inner, type) else str(inner).replace("typing.", "")
