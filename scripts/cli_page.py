"""Generate docs/reference/cli.md from the commands; run it after changing a command or an option."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final

import typer

from leadline.cli.app import GROUPS, application
from leadline.cli.help_page import first_sentence

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
_TYPE: Final = re.compile(r" <[^>]*>$")
"""The type of a parameter as some versions of typer state it."""
_INTRODUCTION: Final = """\
# Command line

`leadline COMMAND --help` prints the same. Where a command takes a run, it is given by its name in the runs directory,
by its path, by its URI in an [object store](../how-to/object-stores.md), or as `-1` for the run before the latest;
without a name it is the latest run.
"""


def page() -> str:
    """Return the content of the page."""
    group: Any = typer.main.get_command(application())
    lines = [_INTRODUCTION]
    for title, names in GROUPS.items():
        rows = [f"| [`leadline {name}`](#leadline-{name}) | {_summary(group.commands[name])} |" for name in names]
        lines += [f"| {title} | purpose |", "|---|---|", *rows, ""]
    sections = [section(name, group.commands[name]) for names in GROUPS.values() for name in names]
    return "\n".join([*lines, *sections])


def section(name: str, command: Any) -> str:
    """Return the section of a command."""
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(["leadline", name, *command.collect_usage_pieces(context)])
    records: dict[str, list[str]] = {"argument": [], "option": []}
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            term = _TYPE.sub("", record[0].strip())
            records[parameter.param_type_name].append(f"| `{term}` | {_cell(record[1])} |")
    lines = [f"## leadline {name}", "", "```", usage, "```", "", _markdown(inspect.cleandoc(command.help or "")), ""]
    for kind, rows in records.items():
        lines += [f"| {kind} | meaning |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def _summary(command: Any) -> str:
    return _cell(first_sentence(command.help).removesuffix("."))


def _markdown(text: str) -> str:
    """Return a docstring as Markdown: command lines, which are indented, as code."""
    text = text.replace("\b\n", "").replace("``", "`")
    return re.sub(r"(?:^ {2,}.*(?:\n|$))+", lambda code: f"```\n{inspect.cleandoc(code[0])}\n```\n", text, flags=re.M)


def _cell(text: str) -> str:
    return re.sub(r"([*\[\]|])", r"\\\1", " ".join(_markdown(text).split())).replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page())
