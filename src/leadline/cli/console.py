"""Terminal output shared by the commands; control characters of names and messages never reach the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from leadline.records.formatting import printable, significant


class _Terminal(Console):
    """A console that shows control characters within texts as ``?``."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


def complain(message: str) -> None:
    """Write a one-line message to standard error."""
    sys.stderr.write(f"leadline: {printable(' '.join(message.split(chr(10))))}\n")


def console() -> Console:
    """Standard output, in colour on a terminal only, without automatic highlighting."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "100"))
    return _Terminal(highlight=False, soft_wrap=False, width=width)


def error_console() -> Console:
    """Standard error, for progress."""
    return _Terminal(stderr=True)


def echo_json(value: Any) -> None:
    """Print a value as JSON; characters that cannot be printed are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if not text.isascii():
        text = "".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in text)
    typer.echo(text.replace("\x7f", "\\u007f"))


def number(value: Any) -> str:
    """A number with three significant digits, integers exactly; None as a dash; texts unchanged."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value)


_STYLES = {
    "IssuesFound": "red",
    "fired": "red",
    "Error": "red",
    "error": "red",
    "Failed": "red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "Interrupted": "yellow",
    "NoIssuesFound": "green",
    "clear": "green",
    "Completed": "green",
    "InProgress": "cyan",
    "Starting": "cyan",
    "undecided": "dim",
    "not applicable": "dim",
}
LEVEL_STYLES: Final = {"fatal": "red", "warning": "yellow", "advice": "yellow", "clear": "green", "unknown": ""}
"""The style of an outcome by its level."""


def status(name: str) -> Text:
    """A status in its colour."""
    return Text(name, style=_STYLES.get(name, ""))
