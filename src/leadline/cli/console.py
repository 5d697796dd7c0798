"""Terminal output shared by the commands."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from rich.console import Console
from rich.text import Text


def complain(message: str) -> None:
    """Write a one-line message to standard error."""
    sys.stderr.write(f"leadline: {' '.join(message.split(chr(10)))}\n")


def console() -> Console:
    """Standard output, in colour on a terminal only, without automatic highlighting."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "100"))
    return Console(highlight=False, soft_wrap=False, width=width)


def number(value: Any) -> str:
    """A number with at most four significant digits; None as a dash; texts unchanged."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}"


_STYLES = {
    "IssuesFound": "red",
    "Error": "red",
    "Failed": "red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "Interrupted": "yellow",
    "NoIssuesFound": "green",
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
